"""One job's tasks: from decisions to processes, and back."""
