"""What runs on each node: the local executor behind one connection to the daemon."""
