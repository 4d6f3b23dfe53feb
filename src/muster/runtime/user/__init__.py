"""The API of training scripts."""
