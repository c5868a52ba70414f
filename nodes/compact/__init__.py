"""The steps that turn the old part of an archived conversation into a short account."""
