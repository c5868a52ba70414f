"""Entry point of ``personalab``; Ctrl-C is handled from the first import on."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code; Ctrl-C is heard from the first import on."""
    try:
        from personalab.startup import end_quickly, start_quickly

        start_quickly()
        from cli.running import run

        code = run()
        end_quickly()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
