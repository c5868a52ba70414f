"""The steps that search for a better skill among combinations of tested segments."""
