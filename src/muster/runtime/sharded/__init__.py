"""Models larger than a device: parameters, gradients and optimiser state in parts, with mirrors."""
