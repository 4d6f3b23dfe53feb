"""Commands that print measured figures against their targets."""
