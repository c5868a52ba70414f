"""The steps that summarize a long session in points and open the next session."""
