"""Changes that are only asked about: questions, their progress and their answers."""
