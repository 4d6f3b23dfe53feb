"""From a configuration to a simulation and its result."""
