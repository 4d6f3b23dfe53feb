"""The service of a daemon: requests and answers."""
