"""Everyday training features, resized and killed, against one process of plain torch: `make matrix`."""
