"""Other places for jobs that run: to make room, off slow or draining nodes, away from neighbours."""
