"""`muster run` and its kin: from the command line to a submission."""
