"""``python -m mcp_server``."""

import sys


def main() -> int:
    """Run the server."""
    from personalab.startup import start_quickly

    start_quickly()
    from mcp_server.program import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
