"""Small programs that show how to build on PersonaLab."""
