"""How a task that is no longer needed ends."""


class LeftError(SystemExit):
    """This task is no longer needed: its process ends here, and well."""
