"""Runs the web server: ``python -m web``."""

from __future__ import annotations

import sys

from web.program import main

if __name__ == "__main__":
    sys.exit(main())
