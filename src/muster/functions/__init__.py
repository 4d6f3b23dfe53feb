"""Python functions as jobs: their calls travel as files, and so do their results."""
