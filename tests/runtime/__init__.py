"""The runtime with real torch: single parts, and whole jobs of real processes."""
