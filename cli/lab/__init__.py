"""How does a terminal work with the skill lab?"""
