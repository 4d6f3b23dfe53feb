"""What the daemon asks of the engines that lend it nodes."""
