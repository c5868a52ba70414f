"""What every entrance can do beside running graphs."""
