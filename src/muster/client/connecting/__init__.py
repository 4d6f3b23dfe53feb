"""The way to a daemon: its address, trust in it, requests and streams."""
