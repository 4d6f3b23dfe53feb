"""The futures of live jobs, played in a process beside the daemon."""
