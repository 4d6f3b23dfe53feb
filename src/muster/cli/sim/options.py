"""The options that `muster sim run` and `muster sim compare` share, declared once. Quick to import."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from muster.cli.choices import Output, Resize

INPUT, KNOWN, COSTS, WORLD, FILES = (
    "What is simulated",
    "What policies know",
    "When it is decided, and what changes cost",
    "What the world does",
    "What comes out",
)
"""Groups of options in the help."""


class Tables(StrEnum):
    """How tables are written."""

    CSV = "csv"
    PARQUET = "parquet"


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


Speeds = Annotated[
    Path | None,
    _option(INPUT, metavar="DIR", help="The folder of measured speeds, for a T4 workload."),
]
Rigid = Annotated[
    bool,
    _option(
        INPUT,
        "--rigid/--elastic",
        help="Jobs run on just what they ask for, or on more where it helps.",
    ),
]
First = Annotated[int | None, _option(INPUT, min=1, metavar="N", help="Only the first N jobs.")]
Sort = Annotated[bool, _option(INPUT, "--sort", help="Read a trace whose times are out of order.")]
Skip = Annotated[bool, _option(INPUT, "--skip", help="Leave bad rows out, and count them.")]
Seed = Annotated[int, _option(INPUT, min=0, help="Draws jobs, errors of measurement and failures.")]
Printed = Annotated[Output, _option(FILES, "--output", "-o", help="Print text or JSON.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, as it was written."""

    cluster: Annotated[
        Path, _option(INPUT, metavar="FILE", help="Cluster file: docs/reference/files.md.")
    ]
    trace: Annotated[
        str,
        _option(
            INPUT,
            metavar="FILE|GENERATOR",
            help="Jobs: a file, or a generator like philly-like:jobs=200 (docs/reference/traces.md).",
        ),
    ]
    speeds: Speeds = None
    rigid: Rigid = False
    most: Annotated[
        int | None, _option(INPUT, min=1, metavar="N", help="Workers of an elastic job at the most.")
    ] = None
    free_batch: Annotated[
        bool,
        _option(INPUT, "--free-batch", help="Policies may choose the batch too (T4 workloads only)."),
    ] = False
    first: First = None
    sort: Sort = False
    skip: Skip = False
    one_pool: Annotated[
        bool,
        _option(INPUT, "--one-pool", help="All jobs in one pool, whatever trace and cluster say."),
    ] = False
    oracle: Annotated[
        bool,
        _option(KNOWN, "--oracle", help="True speeds and lengths, not those learnt from running jobs."),
    ] = False
    noise: Annotated[
        float | None,
        _option(
            KNOWN,
            min=0.0,
            metavar="PART",
            help="Error of what jobs measure of themselves. (default: 0.05)",
        ),
    ] = None
    rounds: Annotated[
        str | None,
        _option(COSTS, metavar="TIME", help="Decide at rounds so far apart only, not at events."),
    ] = None
    interval: Annotated[
        str | None,
        _option(
            COSTS, metavar="TIME", help="Without rounds: decide again after so long. (default: 60s)"
        ),
    ] = None
    resize: Annotated[
        Resize, _option(COSTS, help="Running jobs change live, or stop and start anew.")
    ] = Resize.LIVE
    pause: Annotated[
        str | None,
        _option(
            COSTS, metavar="TIME", help="Lost by a start or change. (default: each job's own, 30s)"
        ),
    ] = None
    release: Annotated[
        str, _option(COSTS, metavar="TIME", help="From a change's order until old devices are free.")
    ] = "0s"
    checkpoint: Annotated[
        str, _option(COSTS, metavar="TIME", help="Between checkpoints: what a lost node may cost.")
    ] = "10m"
    strategy: Annotated[
        str,
        _option(COSTS, metavar="NAME", help="Where jobs go: adaptive, pack, spread, even, roomy."),
    ] = "adaptive"
    migrate: Annotated[
        bool,
        _option(COSTS, "--migrate/--no-migrate", help="Small jobs may be moved to make room."),
    ] = True
    interference: Annotated[
        str | None,
        _option(
            WORLD,
            metavar="PART",
            help="How much neighbours slow each other down: 0.1 (network), or switch=0.3,node=0.1.",
        ),
    ] = None
    failures: Annotated[
        str | None,
        _option(WORLD, metavar="TIMES", help="Nodes fail at random: mtbf=30d,repair=2h (means)."),
    ] = None
    incidents: Annotated[
        Path | None,
        _option(WORLD, metavar="FILE", help="CSV at,node,event: nodes lost, returned, draining."),
    ] = None
    until: Annotated[
        str | None, _option(WORLD, metavar="TIME", help="Stop then, whatever is left.")
    ] = None


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is `Asked`, with one option for each of its fields."""
    hints = get_type_hints(Asked, include_extras=True)
    shared = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(Asked)
    ]
    _, *own = (
        each.replace(kind=Parameter.KEYWORD_ONLY) for each in signature(command).parameters.values()
    )

    def called(**given: Any) -> None:
        asked = Asked(**{each.name: given.pop(each.name) for each in fields(Asked)})
        command(asked, **given)

    parameters = [*shared, *own]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__doc__, called.__name__ = command.__doc__, command.__name__
    return called
