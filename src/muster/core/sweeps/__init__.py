"""Which members of a sweep enter the queue, go on, pause or stop."""
