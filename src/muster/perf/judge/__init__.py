"""The finest replay of a step, transfer by transfer: the judge of the closed form."""
