"""Which jobs a command is about: options that `ps`, `stop`, `wait`, `logs` share. Quick to import."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from muster.cli.options import option

if TYPE_CHECKING:
    from muster.client import JobSelection

FILTER = "Filter"
"""The group of these options in the help."""
ME, EVERYBODY = "@me", "*"
"""Users in a filter: the caller, and all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """A filter, unparsed; None: not given."""

    status: Annotated[
        list[str] | None,
        option(FILTER, "Only these: running, waiting, failed, ... Repeatable.", metavar="STATUS"),
    ] = None
    name: Annotated[
        str | None, option(FILTER, "Only those of this name; * and ? match.", metavar="PATTERN")
    ] = None
    user: Annotated[str | None, option(FILTER, "Only this user's.", "--user", "-u", metavar="NAME")] = (
        None
    )
    pool: Annotated[str | None, option(FILTER, "Only this pool's.", metavar="POOL")] = None
    label: Annotated[
        list[str] | None,
        option(
            FILTER,
            "Only those with this label, or this key. Repeatable: all must match.",
            "--label",
            "-l",
            metavar="KEY[=VALUE]",
        ),
    ] = None
    since: Annotated[
        str | None,
        option(FILTER, "Only those submitted since: 2h ago, or 2026-11-16.", metavar="TIME"),
    ] = None
    before: Annotated[
        str | None,
        option(FILTER, "Only those submitted before: 1d ago, or 2026-11-16T09:30.", metavar="TIME"),
    ] = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self != JobFilters()

    def selection(self, now: float) -> "JobSelection":
        """Return them as the client takes them; InputError names the option at fault."""
        from muster.cli.parse import moment_of
        from muster.client import JobSelection

        return JobSelection(
            statuses=_statuses(self.status or ()),
            user=None if self.user == EVERYBODY else self.user,
            pool=self.pool,
            name=self.name,
            labels=tuple(self.label or ()),
            since=None if self.since is None else moment_of("--since", self.since, now),
            before=None if self.before is None else moment_of("--before", self.before, now),
        )

    def own(self) -> "JobFilters":
        """Return them for the caller's own jobs, unless they name a user."""
        return self if self.user is not None else replace(self, user=ME)

    def words(self) -> list[str]:
        """Return them as they are typed."""
        found: list[str] = []
        for name, value in (
            ("--status", self.status),
            ("--name", self.name),
            ("-u", self.user),
            ("--pool", self.pool),
            ("-l", self.label),
            ("--since", self.since),
            ("--before", self.before),
        ):
            for each in value if isinstance(value, list) else [value] if value else []:
                found += [name, each]
        return found


def _statuses(given: "list[str] | tuple[str, ...]") -> tuple[str, ...]:
    """Return statuses as words, given one by one or joined by commas."""
    from muster.files.errors import InputError, one_of
    from muster.wire.api.records import LIVE, OVER

    words = [word.strip() for text in given for word in text.split(",")]
    for word in words:
        if word not in (*LIVE, *OVER):
            raise InputError.at("--status", one_of(word, "status", (*LIVE, *OVER)))
    return tuple(words)


def refuse_mixed(filters: JobFilters, *which: str, every: bool = False) -> None:
    """Refuse jobs and a filter at once: which of them was meant is not clear."""
    from muster.files.errors import InputError

    if which and (filters.given or every):
        raise InputError.at(which[0], "give jobs or a filter, not both")
