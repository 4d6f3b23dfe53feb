"""Records of the API."""
