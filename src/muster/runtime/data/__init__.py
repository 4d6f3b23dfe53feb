"""Which samples a step takes, and how they are loaded."""
