"""`muster up` and `muster down`."""
