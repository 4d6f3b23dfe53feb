"""The driver on the real clock: one loop, and the state it folds."""
