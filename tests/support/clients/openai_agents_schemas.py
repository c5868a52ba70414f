"""The converter of openai-agents for MCP tools in strict mode, for the schemas on stdin.

It runs in an environment of its own (``build/clients/openai_agents``).
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import json
import sys

from agents.strict_schema import ensure_strict_json_schema


def main() -> None:
    """Print the converted schemas."""
    schemas = json.load(sys.stdin)
    print(json.dumps({name: ensure_strict_json_schema(schema) for name, schema in schemas.items()}))


main()
