"""Orders to tasks, and what tasks say."""
