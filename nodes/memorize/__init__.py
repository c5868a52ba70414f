"""The steps that turn a conversation into memories of an agent about a user."""
