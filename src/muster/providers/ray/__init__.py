"""Muster on a Ray cluster: nodes, devices and deaths are Ray's to know."""
