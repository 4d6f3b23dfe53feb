"""A job's own speed, learnt from a handful of samples."""
