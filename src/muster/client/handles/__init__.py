"""What was submitted, to hold, wait for and watch."""
