"""Who shall be a member of a job that changes its tasks while it trains: for launcher and daemon."""
