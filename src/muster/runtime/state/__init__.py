"""What training carries from step to step: kept, saved, sent."""
