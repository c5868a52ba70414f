"""The steps that make a better skill out of the pieces of those that were tested."""
