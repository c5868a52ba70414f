"""Entrance for MCP clients: reads the call, runs a graph or an operation, and writes the result."""
