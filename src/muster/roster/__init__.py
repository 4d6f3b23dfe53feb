"""Decides the members of a job that is resized while it trains; shared by launcher and daemon."""
