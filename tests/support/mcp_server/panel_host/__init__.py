"""A host of MCP Apps for the panel's tests."""
