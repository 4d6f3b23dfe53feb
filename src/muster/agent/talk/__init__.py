"""What goes over the connection to the daemon, and what waits for it."""
