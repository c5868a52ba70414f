"""The steps by which a character grows from what it lived through."""
