"""What the agent does for the tasks of its node."""
