"""Requests of administrators, the rules they set, and the log of who did what."""
