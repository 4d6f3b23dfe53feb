"""From a view to decisions."""
