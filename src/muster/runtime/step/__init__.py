"""One step of training on one member."""
