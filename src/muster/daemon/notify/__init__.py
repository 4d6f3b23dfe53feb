"""Tells people and programs what became of jobs: webhooks and commands, off the loop, retried."""
