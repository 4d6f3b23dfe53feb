"""`muster whatif`: what a change would do."""
