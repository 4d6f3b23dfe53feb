"""A job's story, told from the journal."""
