"""Operations of the lab that all entrances share."""
