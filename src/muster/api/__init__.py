"""HTTP around the daemon's service: versioned under /v1, described by OpenAPI."""
