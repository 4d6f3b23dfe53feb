"""What can go wrong, in words that say what to change."""


class RuntimeFault(Exception):
    """Base of the runtime's own errors."""


class BrokenGroupError(RuntimeFault):
    """The group cannot be used any more: a member is gone, hangs, or somebody has closed it."""


class ExcludedError(RuntimeFault):
    """The other members have gone on without this one."""


class BadTrainingError(RuntimeFault):
    """What the user handed over cannot be trained: said before or at the step, nothing applied."""


class BadCheckpointError(RuntimeFault):
    """A checkpoint that is damaged, or of another model."""
