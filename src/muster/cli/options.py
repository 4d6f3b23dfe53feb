"""Options and arguments that several commands share, declared once. Quick to import."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from muster.cli.choices import ListFormat, Output
from muster.cli.group import Commands, QuickGroup
from muster.cli.jobs.complete import complete_jobs, complete_live_jobs

JOBS, DAEMON, ADMIN, OFFLINE = ("Jobs", "Daemon", "Administration", "Without a daemon")
"""Groups of commands in the help."""
JOBS_SHOWN = 100
"""Jobs of a page of `muster ps`, unless -n says otherwise."""
FORMATS = "Output format; --json is short for -o json."


def option(panel: str | None, text: str, *names: str, **more: Any) -> Any:
    """Declare an option: its group in the help, its help text, and what Typer takes beside them."""
    return typer.Option(*names, rich_help_panel=panel, help=text, **more)


def noun(name: str, text: str) -> typer.Typer:
    """A group of commands about one kind of thing: `muster NAME VERB`."""
    return Commands(name=name, cls=QuickGroup, help=text, no_args_is_help=True)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, for each parameter that is a dataclass, an option for each of its fields."""
    hints = get_type_hints(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        group = groups.get(each.name)
        own = each.replace(kind=Parameter.KEYWORD_ONLY)
        parameters += [own] if group is None else _parameters(group)

    def called(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            for name, kind in groups.items()
        }
        command(**made, **given)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__doc__, called.__name__ = command.__doc__, command.__name__
    return called


def _parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


DryRun = Annotated[
    bool,
    option(None, "Only show what it would do to the live jobs (docs/how-to/what-if.md).", "--dry-run"),
]
Which = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Number or name of a job; another user's: USER/NAME.",
        autocompletion=complete_jobs,
    ),
]
WhichLive = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Number or name of a job; another user's: USER/NAME.",
        autocompletion=complete_live_jobs,
    ),
]
SeveralLive = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...", help="Numbers or names of jobs.", autocompletion=complete_live_jobs
    ),
]
Listed = Annotated[ListFormat, option(None, FORMATS, "--output", "-o")]
Printed = Annotated[Output, option(None, FORMATS, "--output", "-o")]
Watched = Annotated[bool, option(None, "Print again on every change.", "--watch", "-w")]
Yes = Annotated[bool, option(None, "Do not ask for confirmation.", "--yes", "-y")]
