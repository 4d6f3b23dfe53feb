"""Sweeps in a simulation: who enters, pauses, goes on and stops, by the daemon's own rules."""
