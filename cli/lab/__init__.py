"""Terminal output and commands for the skill lab."""
