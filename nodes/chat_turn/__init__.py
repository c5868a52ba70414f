"""The nine steps of a chat turn."""
