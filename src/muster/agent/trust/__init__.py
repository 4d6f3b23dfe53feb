"""Who the agent is to its daemon: its folder, its key, its certificate."""
