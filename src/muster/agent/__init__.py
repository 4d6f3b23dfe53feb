"""The agent of a node: runs tasks for a daemon that it dials. Small: it imports no large library."""
