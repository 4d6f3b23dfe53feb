"""Who sends requests. Quick to import: the door answers before the daemon is loaded."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. Administrators may do everything; users see and stop their own jobs and
    those of shared pools."""

    user: str
    admin: bool = False
    address: str = field(default="", compare=False)
    """Where the request came from, for the audit log."""
