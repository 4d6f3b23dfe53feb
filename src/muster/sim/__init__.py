"""A driver of the cycle on a virtual clock."""
