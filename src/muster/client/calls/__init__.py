"""What a client asks, by subject."""
