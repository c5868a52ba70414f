"""The terminal entrance: the command ``personalab``."""
