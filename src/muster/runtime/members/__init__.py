"""Membership, and how it changes."""
