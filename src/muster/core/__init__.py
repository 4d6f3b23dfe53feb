"""The cycle: pools, ledger, lifecycle and the fold of events that is the state."""
