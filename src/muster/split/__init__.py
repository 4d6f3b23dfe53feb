"""How a batch and the parameters are split among unequal devices. Pure; imports nothing."""
