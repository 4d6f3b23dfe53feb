"""Training scripts that tests run as real processes."""
