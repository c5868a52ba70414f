"""How does an iteration search for a better skill, and what does it ask to be scored next?"""
