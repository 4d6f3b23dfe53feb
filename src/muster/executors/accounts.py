"""Unix users: whom the tasks of a job run as."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path


class UnknownUserError(LookupError):
    """This machine has no such user."""

    def __init__(self, user: str) -> None:
        super().__init__(f"user {user!r} does not exist on this machine")


@dataclass(frozen=True, slots=True)
class Account:
    """A Unix user with its groups, as this machine knows them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path
    shell: str

    @property
    def environ(self) -> dict[str, str]:
        """What a login would set."""
        named = dict.fromkeys(("USER", "LOGNAME"), self.name)
        return {"HOME": str(self.home), "SHELL": self.shell, **named}


def account_of(user: str) -> Account:
    """Look a user up by name; UnknownUserError if there is none."""
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise UnknownUserError(user) from None
    groups = tuple(os.getgrouplist(user, entry.pw_gid))
    shell = entry.pw_shell or "/bin/sh"
    return Account(user, entry.pw_uid, entry.pw_gid, groups, Path(entry.pw_dir), shell)


def own_user() -> str:
    """Return the name of the user that this process runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@dataclass(frozen=True, slots=True)
class Submitters:
    """Who runs the jobs: their submitters, or the daemon's own user."""

    own: str = ""
    """The daemon's user."""
    separate: bool = False
    """Whether other users' jobs run as those users."""

    def user_of(self, submitter: str) -> str:
        """Return the Unix user to run a submitter's tasks as; empty: the daemon's own."""
        return submitter if self.separate and submitter != self.own else ""

    def problem(self, submitter: str, caller: str) -> str:
        """Why a caller cannot submit a job of this user; empty if it can."""
        if not self.separate or submitter == self.own == caller:
            return ""
        if submitter == self.own:
            return f"only {self.own} can submit jobs that run as {self.own}"
        missing = self.without_account(submitter)
        if missing:
            return (
                f"{missing}; ask the administrator for an account, "
                "or for a token of one (muster token create NAME --user USER)"
            )
        return "" if account_of(submitter).uid else f"user {submitter!r} is {self.own} by another name"

    def without_account(self, user: str) -> str:
        """Why this user can run no jobs, if it lacks an account for them; empty if it does not."""
        if not self.separate or user == self.own:
            return ""
        try:
            account_of(user)
        except UnknownUserError as error:
            return f"{error}, and jobs run as their submitters"
        return ""

    @property
    def caveat(self) -> str:
        """What is not isolated; empty if users are isolated from each other."""
        if self.separate:
            return ""
        how = "use --run-as submitter" if not os.geteuid() else "start the daemon as root"
        return (
            f"all jobs run as {self.own}, so users can read each other's files; to separate them, {how}"
        )


TOGETHER = Submitters()
"""All jobs run as the daemon's own user."""
