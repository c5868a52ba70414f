"""What PersonaLab ships to run without a model, a program or a disk: for trying it, tests and measurements."""
