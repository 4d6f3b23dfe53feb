"""Who gets how much: the policies of others and our own, behind one interface."""
