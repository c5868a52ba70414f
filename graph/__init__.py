"""The graphs that join the steps, one file per graph."""
