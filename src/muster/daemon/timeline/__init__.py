"""What is kept of the past: curves of trainings, and who held which devices when."""
