"""The steps of the graphs, one per file."""
