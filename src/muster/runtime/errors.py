"""What can go wrong, in words that say what to change."""


class MusterError(Exception):
    """Base of the runtime's own errors."""


class BrokenGroupError(MusterError):
    """The group cannot be used any more: a member is gone, hangs, or somebody has closed it."""


class ExcludedError(MusterError):
    """The other members have gone on without this one."""


class LostServerError(MusterError):
    """A server of an asynchronous training is gone, and its part of the parameters with it."""


class BadTrainingError(MusterError):
    """What the user handed over cannot be trained: said before or at the step, nothing applied."""


class BadCheckpointError(MusterError):
    """A checkpoint that is damaged, or of another model."""


class LeftError(SystemExit):
    """Ends the process of a task that is no longer needed, with exit code 0."""
