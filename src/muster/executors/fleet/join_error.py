"""Why an agent may not join: apart from what needs cryptography, for those who only report it."""


class JoinError(Exception):
    """An agent that may not join or connect, and why, in one line."""
