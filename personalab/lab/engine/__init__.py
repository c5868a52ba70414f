"""Search engines of the iteration, which decide what is evaluated next."""
