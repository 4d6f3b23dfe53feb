"""What would become of the live jobs if something were changed."""
