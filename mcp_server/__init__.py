"""Entrance for MCP clients: read the call, run a graph or an operation, word the result."""
