"""Requests that submit, and what a submission must satisfy."""
