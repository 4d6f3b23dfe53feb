"""Live sweeps: their members' metrics, and what follows from them."""
