"""The converter of google-genai for MCP tools, for the schemas on stdin.

It runs in an environment of its own (``build/clients/google_genai``).
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from google.genai._mcp_utils import mcp_to_gemini_tool


def main() -> None:
    """Print the declarations of the tools' functions."""
    found = {}
    for name, schema in json.load(sys.stdin).items():
        tool = mcp_to_gemini_tool(SimpleNamespace(name=name, description=name, input_schema=schema))
        found[name] = tool.model_dump(mode="json", exclude_none=True)["function_declarations"][0]
    print(json.dumps(found))


main()
