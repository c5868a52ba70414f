"""Retrieval of past events: vectors in Chroma, fused with a lexical index of our own."""
