"""`muster sim`."""
