"""Ways to sum the gradients of one step over the members of one formation."""
