"""What the default policy is made of: bids of jobs, their prices, and the deal."""
