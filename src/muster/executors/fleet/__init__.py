"""The executor of many machines: orders go to the agents of nodes."""
