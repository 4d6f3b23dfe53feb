"""What can be asked of a daemon, and the answers."""
