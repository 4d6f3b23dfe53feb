"""Who gets how much: one file per policy."""
