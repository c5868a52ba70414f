"""What is measured, against what, as ratios."""
