"""The step of a chat over messages."""
