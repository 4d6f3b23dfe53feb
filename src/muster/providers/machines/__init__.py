"""Nodes whose agents are started by hand, by ssh or by systemd."""
