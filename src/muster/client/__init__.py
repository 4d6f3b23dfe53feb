"""The Python client: submits jobs and looks after them. Sees what is on the wire alone."""
