"""The rules of a chat: pure functions and values, no files, no models, no clocks."""
