"""Commands that lead into running jobs."""
