"""Finding what happened: vectors in Chroma, words in an index of our own, fused."""
