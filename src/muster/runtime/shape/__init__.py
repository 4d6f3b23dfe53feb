"""The shape of a training, captured without a device."""
