"""The MCP server, asked by its own SDK, by other clients, and by the conformance suite."""
