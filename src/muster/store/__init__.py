"""The journal, and the tables needed to list and page: SQLite or PostgreSQL."""
