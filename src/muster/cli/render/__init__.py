"""Records as text: tables, pages, pictures."""
