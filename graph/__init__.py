"""How steps are joined, one file a graph."""
