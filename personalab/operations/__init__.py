"""Operations that all entrances share, besides running graphs."""
