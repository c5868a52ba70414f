"""The rules of the skill lab: which prompt is better, why, and how is a better one made?"""
