"""Clients of others that talk to the MCP server; each is a script that prints what it saw as JSON."""
