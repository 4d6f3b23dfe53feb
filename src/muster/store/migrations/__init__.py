"""How the tables came to be as they are: one file for each change, run in order by Alembic."""
