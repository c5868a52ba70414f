"""Where memories are kept and found: SQLite with Chroma, or PostgreSQL with pgvector.

Records and vectors stand in one room, for in PostgreSQL they are one table.
"""
