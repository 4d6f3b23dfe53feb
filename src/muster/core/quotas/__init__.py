"""What each pool may use, and what each job holds."""
