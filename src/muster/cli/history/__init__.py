"""`muster history`: the past as files."""
