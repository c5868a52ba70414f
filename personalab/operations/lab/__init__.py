"""What every entrance can do in the lab."""
