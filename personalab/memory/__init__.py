"""What does a character know about a person, and how is it learned? Pure rules."""
