"""Batch scripts in the wild's style: each is mapped, or refused by its line.

What becomes of `tests/data/sbatch/NAME.sbatch` is in `NAME.expected`.
"""

from pathlib import Path

import pytest

from muster.files.job.job_file import job_of
from muster.files.sbatch.amounts import bytes_of, check_array, gpus_of, gres_of, seconds_of_time
from muster.files.sbatch.directives import KNOWN, Directive, directives_of, has_directives
from muster.files.sbatch.mapping import batch_of, read_batch
from muster.files.sbatch.unmapped import HANDLED, NOTED, REFUSED
from muster.files.source.faults import FaultsError

SCRIPTS = sorted((Path(__file__).parents[2] / "data/sbatch").glob("*.sbatch"))
MAPPED = """
array chdir cpus-per-task dependency error export gpus gpus-per-node gpus-per-task gres job-name
mail-type mail-user mem mem-per-cpu mem-per-gpu no-requeue nodes ntasks ntasks-per-node open-mode
output partition
requeue signal time
"""


def read(path: Path) -> str:
    """What becomes of a script, a line for each field and each note or refusal."""
    try:
        job = batch_of(path.read_text(encoding="utf-8"), path.name, path.stem)
    except FaultsError as error:
        return "".join(f"refused: {line}\n" for line in error.lines)
    fields = {**job.record, "output": job.output, "error": job.error}
    lines = [f"{name}: {value}\n" for name, value in fields.items() if value]
    return "".join([*lines, *(f"note: {note}\n" for note in job.notes)])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_mapped_or_refused_by_line(path: Path) -> None:
    assert read(path) == path.with_suffix(".expected").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_is_mapped_is_a_job(path: Path) -> None:
    assert has_directives(path.read_text(encoding="utf-8"))
    if path.stem == "refused":
        return
    record = read_batch(path).record
    record.pop("sweep", None)  # of many jobs
    job = job_of({**record, "command": ["true"]})
    assert job.program.slurm_env


def test_every_option_of_sbatch_is_mapped_noted_or_refused() -> None:
    groups = [set(MAPPED.split()), set(NOTED), set(REFUSED), set(HANDLED)]
    assert set().union(*groups) == KNOWN
    assert sum(map(len, groups)) == len(KNOWN), "each in one group"


def test_directives_are_read_as_slurm_reads_them() -> None:
    lines = ["#!/bin/sh", "#SBATCH -n4 --mem 2G  # each", "", "# why"]
    lines += ["#SBATCH --exclusive", "true", "#SBATCH -n8"]
    assert directives_of("\n".join(lines)) == (
        [Directive("ntasks", "4", 2), Directive("mem", "2G", 2), Directive("exclusive", "", 5)],
        [],
    )


def test_every_line_at_fault_is_told_at_once() -> None:
    lines = ["#!/bin/sh", "#SBATCH --ntaks=4", "#SBATCH --begin=now", "#SBATCH -Z"]
    with pytest.raises(FaultsError) as refused:
        batch_of("\n".join(lines), "x.sbatch", "x")
    assert [line.partition(": ")[0] for line in refused.value.lines] == [
        "x.sbatch:2",
        "x.sbatch:3",
        "x.sbatch:4",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--ntaks=4", "x.sbatch:2: --ntaks is no option of sbatch (did you mean --ntasks?)"),
        ("-Z 4", "x.sbatch:2: -Z is no option of sbatch"),
        ("--time", "x.sbatch:2: --time has no value"),
        ("time=4", "x.sbatch:2: 'time=4' is no option; options begin with - or --"),
        ("--ntasks=0", "x.sbatch:2: --ntasks=0: '0' is no number above 0"),
    ],
)
def test_what_says_nothing_is_refused_by_its_line(text: str, told: str) -> None:
    with pytest.raises(FaultsError) as refused:
        batch_of(f"#!/bin/sh\n#SBATCH {text}\n", "x.sbatch", "x")
    assert refused.value.lines == (told,)


def test_options_of_the_command_line_win() -> None:
    job = batch_of("#!/bin/sh\n#SBATCH --time=10\n#SBATCH -J a\n", "x", "x", ["--time=20", "-J", "b"])
    assert (job.record["time"], job.record["name"]) == ("1200s", "b")


def test_amounts_are_slurms() -> None:
    times = {"90": 5400, "1:30": 90, "1:00:00": 3600, "2-12": 216000, "1-0:30": 88200, "0": None}
    assert {text: seconds_of_time(text) for text in times} == times
    assert [bytes_of(text) for text in ("4000", "2G", "512K", "1T")] == [
        4000 * 2**20,
        2**31,
        2**19,
        2**40,
    ]
    assert [gpus_of(text) for text in ("4", "a100:2", "a100")] == [("", 4), ("a100", 2), ("a100", 1)]
    assert gres_of("shard:1,gpu:v100:2(S:0)") == ("v100", 2)
    assert gres_of("license:2") is None
    check_array("1,3,5-9:2%3")
    with pytest.raises(ValueError, match="no array"):
        check_array("1,1")
