"""Storage and search of memories: SQLite with Chroma, or PostgreSQL with pgvector.

Records and vectors are in one package, because in PostgreSQL they are one table.
"""
