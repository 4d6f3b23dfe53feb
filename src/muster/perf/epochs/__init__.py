"""How many epochs are left, from the losses so far."""
