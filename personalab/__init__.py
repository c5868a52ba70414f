"""PersonaLab: characters that live through a story with you, remember it, and grow."""
