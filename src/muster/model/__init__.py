"""What is there and what is asked: the nouns, as frozen values."""
