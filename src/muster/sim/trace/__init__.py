"""The simulator's inputs: traces read or made up, one arrival after the other."""
