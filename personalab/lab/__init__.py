"""The rules of the skill lab: comparing prompts, explaining the differences and making better prompts."""
