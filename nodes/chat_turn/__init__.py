"""The seven steps of a chat turn."""
