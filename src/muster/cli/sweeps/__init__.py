"""`muster sweep`, and the sweeps of `muster run`."""
