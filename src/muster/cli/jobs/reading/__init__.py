"""Commands that show jobs: lists, one in full, their past and their story."""
