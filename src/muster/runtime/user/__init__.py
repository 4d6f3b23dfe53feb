"""What a training script holds."""
