"""What daemon, launcher, training processes and clients say to each other. Imports nothing of ours."""
