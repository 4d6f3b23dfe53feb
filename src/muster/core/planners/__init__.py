"""Planners that decide beside each other, each for its own pools, and the centre that approves."""
