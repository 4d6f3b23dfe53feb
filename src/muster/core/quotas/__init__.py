"""Who may use how much, and who holds what."""
