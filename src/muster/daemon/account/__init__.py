"""What jobs hold and waste, by the hour, and budgets of it."""
