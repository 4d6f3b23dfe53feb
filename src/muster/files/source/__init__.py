"""YAML with positions, checked field by field."""
