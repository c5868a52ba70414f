"""What each command takes from the command line; the work stands beside, imported when it is run."""
