"""Command line definitions; the implementations are in ``cli`` and are imported when a command runs."""
