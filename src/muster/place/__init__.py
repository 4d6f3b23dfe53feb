"""Where exactly: strategies that turn a plan into bits on nodes."""
