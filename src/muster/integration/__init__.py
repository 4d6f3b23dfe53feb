"""What the integrations with training frameworks have in common."""
