"""The future of the live jobs, played forward many times from the present."""
