"""The entrance for MCP clients."""
