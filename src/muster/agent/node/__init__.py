"""What the node is and has: devices, health, what it offers, who takes it away."""
