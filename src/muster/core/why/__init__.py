"""Reasons as text."""
