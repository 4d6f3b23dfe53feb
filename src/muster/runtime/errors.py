"""Errors, worded to say what to change."""


class MusterError(Exception):
    """Base of the runtime's own errors."""


class BrokenGroupError(MusterError):
    """The group is unusable: a member is lost or hangs, or the group was closed."""


class MinorityError(BrokenGroupError):
    """Some members differ from the majority, to which this one belongs, and leave."""


class ExcludedError(MusterError):
    """The other members continue without this one."""


class CannotJoinError(ExcludedError):
    """This worker's script differs from the others' and cannot take over their state."""


class DivergedError(ExcludedError):
    """This worker's state differs from that of most others, who continue without it."""


class LostServerError(MusterError):
    """A server of an asynchronous training is lost, with its part of the parameters."""


class BadTrainingError(MusterError):
    """The training cannot run as given; raised before or at a step, with nothing applied."""


class BadCheckpointError(MusterError):
    """A damaged checkpoint, or one of another model."""


class LeftError(SystemExit):
    """Ends the process of a task that is no longer needed, with exit code 0."""
