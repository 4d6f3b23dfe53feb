"""The options of `muster sim`. Quick to import."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from muster.cli.choices import Output, Resize
from muster.cli.options import FORMATS, option

INPUT, KNOWN, COSTS, WORLD, FILES = (
    "Input",
    "What policies know",
    "Decisions and their cost",
    "Disturbances",
    "Output",
)
"""Groups of options in the help."""


Speeds = Annotated[
    Path | None,
    option(INPUT, "Folder of measured speeds, for T4 workloads.", metavar="DIR"),
]
Rigid = Annotated[
    bool,
    option(
        INPUT, "Run jobs on exactly what they ask for, or on more if it helps.", "--rigid/--elastic"
    ),
]
First = Annotated[int | None, option(INPUT, "Only the first N jobs.", min=1, metavar="N")]
Sort = Annotated[bool, option(INPUT, "Sort a trace whose times are out of order.", "--sort")]
Skip = Annotated[bool, option(INPUT, "Skip and count bad rows.", "--skip")]
Seed = Annotated[int, option(INPUT, "Seed for jobs, measurement errors and failures.", min=0)]
Printed = Annotated[Output, option(FILES, FORMATS, "--output", "-o")]
Quiet = Annotated[bool, option(FILES, "No progress bar.", "--quiet", "-q")]
Gantt = Annotated[bool, option(FILES, "Record and draw which job held which device.", "--gantt")]
Plots = Annotated[Path | None, option(FILES, "Write the figures as PNG files here.", metavar="DIR")]
Format = Annotated[Literal["csv", "parquet"], option(FILES, "Format of stored tables.", "--format")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The shared options, unparsed."""

    cluster: Annotated[
        Path,
        option(
            INPUT,
            "Cluster file (docs/reference/files.md), or what muster snapshot wrote.",
            metavar="FILE",
        ),
    ]
    trace: Annotated[
        str,
        option(
            INPUT,
            "Jobs: a file, or a generator such as philly-like:jobs=200 (docs/reference/traces.md).",
            metavar="FILE|GENERATOR",
        ),
    ]
    speeds: Speeds = None
    rigid: Rigid = False
    most: Annotated[
        int | None, option(INPUT, "Most workers of an elastic job.", min=1, metavar="N")
    ] = None
    free_batch: Annotated[
        bool,
        option(INPUT, "Policies may choose the batch size (T4 workloads only).", "--free-batch"),
    ] = False
    first: First = None
    sort: Sort = False
    skip: Skip = False
    one_pool: Annotated[
        bool,
        option(INPUT, "Put all jobs into one pool.", "--one-pool"),
    ] = False
    oracle: Annotated[
        bool,
        option(KNOWN, "Tell policies true speeds and lengths, not learnt ones.", "--oracle"),
    ] = False
    noise: Annotated[
        float | None,
        option(KNOWN, "Relative error of what jobs measure. (default: 0.05)", min=0.0, metavar="PART"),
    ] = None
    rounds: Annotated[
        str | None,
        option(COSTS, "Decide in rounds of this length only, not at events.", metavar="TIME"),
    ] = None
    interval: Annotated[
        str | None,
        option(COSTS, "Without rounds: longest time between decisions. (default: 60s)", metavar="TIME"),
    ] = None
    resize: Annotated[Resize, option(COSTS, "Resize running jobs live, or by a restart.")] = "live"
    pause: Annotated[
        str | None,
        option(COSTS, "Time lost by a start or change. (default: the job's own, 30s)", metavar="TIME"),
    ] = None
    release: Annotated[
        str, option(COSTS, "Time from a change's order until its old devices are free.", metavar="TIME")
    ] = "0s"
    checkpoint: Annotated[
        str, option(COSTS, "Time between checkpoints: the most a lost node costs.", metavar="TIME")
    ] = "10m"
    strategy: Annotated[
        str,
        option(COSTS, "Placement: adaptive, pack, spread, even or roomy.", metavar="NAME"),
    ] = "adaptive"
    migrate: Annotated[
        bool,
        option(COSTS, "Move small jobs to make room.", "--migrate/--no-migrate"),
    ] = True
    interference: Annotated[
        str | None,
        option(WORLD, "Slowdown by neighbours: 0.1 (network), or switch=0.3,node=0.1.", metavar="PART"),
    ] = None
    true_links: Annotated[
        str | None,
        option(
            WORLD, "Parts of their claimed bandwidth that links carry: n3=0.1,n7=0.5.", metavar="PARTS"
        ),
    ] = None
    learn_links: Annotated[
        bool,
        option(WORLD, "Decide by what links have carried.", "--learn-links/--no-learn-links"),
    ] = True
    failures: Annotated[
        str | None,
        option(WORLD, "Random node failures, by their means: mtbf=30d,repair=2h.", metavar="TIMES"),
    ] = None
    incidents: Annotated[
        Path | None,
        option(
            WORLD,
            "CSV file at,node,event: nodes joined, left, lost, returned, draining.",
            metavar="FILE",
        ),
    ] = None
    until: Annotated[str | None, option(WORLD, "Stop at this time.", metavar="TIME")] = None
    sweep: Annotated[
        str | None,
        option(
            INPUT,
            "A sweep beside the jobs: members=27,epochs=27,epoch=2m,at=1h,at_most=8,rung=4,eta=3. "
            "Without rung nobody is stopped early.",
            metavar="PARTS",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutputs:
    """What a run writes and prints."""

    out: Annotated[Path | None, option(FILES, "Store jobs and samples here.", metavar="DIR")] = None
    form: Format = "csv"
    html: Annotated[Path | None, option(FILES, "Write a report with figures.", metavar="FILE")] = None
    plots: Plots = None
    gantt: Gantt = False
    output: Printed = "text"
    quiet: Quiet = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """What is compared, written and printed."""

    seeds: Annotated[int, option(INPUT, "Seeds 0 to N-1.", min=1, metavar="N")] = 1
    at_a_time: Annotated[int, option(FILES, "Simulations in parallel.", "-j", min=1, metavar="N")] = 1
    out: Annotated[Path, option(FILES, "Where results are stored.", metavar="DIR")] = Path(
        "sim-results"
    )
    fresh: Annotated[bool, option(FILES, "Repeat stored simulations.", "--fresh")] = False
    form: Format = "csv"
    html: Annotated[
        Path | None, option(FILES, "The report. (default: DIR/report.html)", metavar="FILE")
    ] = None
    plots: Plots = None
    gantt: Gantt = False
    full: Annotated[bool, option(FILES, "Print every column.", "--full")] = False
    output: Printed = "text"
    quiet: Quiet = False
