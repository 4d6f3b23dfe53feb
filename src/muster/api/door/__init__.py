"""The way in: sockets, limits, peers and tokens, before any request is answered."""
