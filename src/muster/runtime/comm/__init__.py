"""Ways to sum the gradients of a step over the members of a formation."""
