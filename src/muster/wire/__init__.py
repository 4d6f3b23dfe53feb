"""Messages between daemon, launcher, training processes and clients. Imports no other package of
ours."""
