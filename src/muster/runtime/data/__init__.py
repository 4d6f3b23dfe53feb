"""Which samples a step takes, and where they come from."""
