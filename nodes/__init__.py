"""One step of a graph per file."""
