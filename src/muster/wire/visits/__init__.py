"""Connections into a job: terminals, ports and files."""
