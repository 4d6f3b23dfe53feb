"""Between the daemon and the agents of nodes, and how the ends of a connection know each other."""
