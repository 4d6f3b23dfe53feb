"""Inside the training process: elastic groups, uneven shares, owners of parameters. Needs torch."""
