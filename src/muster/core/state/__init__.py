"""The fold of events that is the state, and what must hold of it."""
