"""How requests fail. Quick to import: the door answers before the daemon is loaded."""


class ServiceError(Exception):
    """A request failed; the message says why and what to do."""


class NotFoundError(ServiceError):
    """Not found, or not visible to the caller."""


class ForbiddenError(ServiceError):
    """Not allowed for this caller."""


class ConflictError(ServiceError):
    """Conflicts with the current state: a name in use, a finished job."""


class RefusedError(ServiceError):
    """Impossible on this cluster; the message names the nearest possible request."""


class FieldRefusedError(RefusedError):
    """A field of the request asks for what is impossible."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem = field, problem


class LimitedError(ServiceError):
    """Too much at once; possible again after `wait` s."""

    def __init__(self, problem: str, wait: float) -> None:
        super().__init__(problem)
        self.wait = wait


class UnavailableError(ServiceError):
    """Temporarily impossible: the journal cannot be written, or another daemon is active."""
