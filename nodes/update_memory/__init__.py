"""The steps by which a character's persona grows with its experiences."""
