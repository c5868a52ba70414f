"""The steps that turn a conversation into what an agent knows about a user."""
