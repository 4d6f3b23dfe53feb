"""Makes the model profiles that Muster ships, from the models' public layer shapes alone."""
