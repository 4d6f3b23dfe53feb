"""Model profiles."""
