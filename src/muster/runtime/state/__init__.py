"""The state of a training: kept, saved, sent."""
