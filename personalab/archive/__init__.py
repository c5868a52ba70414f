"""Formats of other programs for characters, lorebooks, chats and archives: pure rules without file access."""
