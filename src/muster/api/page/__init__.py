"""The dashboard: its files, and the sessions of browsers."""
