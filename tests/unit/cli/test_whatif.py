"""Changes as they are typed, and answers as they are printed."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import typer

from muster.cli.exits import WORSE
from muster.cli.whatif.answer import check, progress
from muster.cli.whatif.request import ClusterSeen, WhatIfOptions, requested, said
from muster.cli.whatif.show import what_if_text
from muster.files.errors import InputError
from muster.wire.api.records import PoolRecord, QuotaRecord
from muster.wire.api.whatif_records import FigureRecord, IntervalRecord, WhatIfJob, WhatIfReport
from tests.unit.cli.invoke import muster

NOW = datetime(2026, 11, 18, 12, 0).astimezone()
SEEN = ClusterSeen((PoolRecord("research", "cluster", (QuotaRecord("V100", 8, 2.0, 16),)),), ("V100",))


def test_several_changes_are_read_as_the_client_takes_them() -> None:
    options = WhatIfOptions(
        "tiresias",
        ["research.reservation=32", "research.limit=none", "research.policy=fifo"],
        ["gpu[17-18]:dgx1"],
        ["n3"],
        (),
        ["12=5"],
        at="18:00",
        by="19:00",
    )
    found = requested(options, SEEN, NOW)
    at = NOW.timestamp() + 6 * 3600
    assert found["policy"] == "tiresias" and found["priorities"] == {"12": 5}
    pool = found["pools"]["research"]
    assert pool["quotas"] == {"V100": {"reservation": 32, "share": 2.0, "limit": None}}
    assert pool["policy"] == "fifo"
    assert found["add"] == [{"names": ["gpu17", "gpu18"], "like": "dgx1", "at": at}]
    assert found["drain"] == [{"names": ["n3"], "at": at, "by": at + 3600}]
    assert said(options).startswith("policy tiresias, research.reservation=32")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (WhatIfOptions(pool=["research=32"]), "research.reservation=32"),
        (WhatIfOptions(pool=["research.size=32"]), "part of a pool"),
        (WhatIfOptions(pool=["reserch.limit=3"]), r"no pool 'reserch' \(did you mean 'research'\?\)"),
        (WhatIfOptions(pool=["research.limit=x"]), r"^--pool research.limit: 'x'"),
        (WhatIfOptions(pool=["research.policy=fif"]), r"^--pool research.policy: 'fif'"),
        (WhatIfOptions(add=["gpu17"]), r"such as gpu\[17-20\]:dgx1"),
        (WhatIfOptions(priority=["12"]), "such as 12=5"),
        (WhatIfOptions("fifo", at="18:00"), "take effect at once"),
        (WhatIfOptions("fifo", by="18:00"), "is for --drain"),
        (WhatIfOptions("tiresas"), "not a policy"),
    ],
)
def test_what_says_nothing_is_rejected(options: WhatIfOptions, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        requested(options, SEEN, NOW)


def test_a_question_without_a_change_is_rejected() -> None:
    with pytest.raises(InputError, match="what shall change"):
        muster("whatif", catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--plot", "when.gif"], "does not end in .png, .svg, .pdf"),
        (["--plot", "no-such-folder/when.png"], "no folder no-such-folder"),
    ],
)
def test_what_cannot_be_read_or_written_is_rejected_before_anything_is_played(
    options: list[str], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        muster("whatif", "--policy", "fifo", *options, catch_exceptions=False)


def test_a_file_to_submit_must_be_there() -> None:
    with pytest.raises(InputError, match=r"--submit: no file no-such-job\.yaml"):
        requested(WhatIfOptions(submit=[Path("no-such-job.yaml")]), SEEN, NOW)


def _around(middle: float, width: float = 0.0) -> IntervalRecord:
    return IntervalRecord(middle, middle - width, middle + width)


def _report() -> WhatIfReport:
    figure = FigureRecord(_around(600.0), _around(300.0), _around(-300.0, 60.0))
    part = FigureRecord(_around(0.5), _around(0.75), _around(0.25))
    late = _around(120.0, 60.0)
    jobs = (
        WhatIfJob(1, "one", "ada", "lab", "same", 0, _around(60.0), before_finish=_around(60.0),
                  finish_change=_around(0.0)),
        WhatIfJob(2, "two", "ada", "lab", "later", 0, _around(720.0), _around(240.0), _around(120.0),
                  _around(600.0), late, late),
        WhatIfJob(3, "three", "ada", "lab", "new", 0, _around(100 * 86_400.0), _around(0.0)),
    )  # fmt: skip
    counts = {"same": 1, "later": 1, "new": 1, "earlier": 1}
    return WhatIfReport(0.0, 16, jobs, counts, figure, figure, part, part, {"lab": figure})


def test_the_answer_tells_who_is_late_first_and_what_is_left_out() -> None:
    text = what_if_text(_report(), "policy fifo")
    lines = text.splitlines()
    assert lines[0] == "What if: policy fifo (16 futures on each side)"
    assert "new (three)" in lines[3] and "never" in lines[3]
    assert "in 2m00s -> in 4m00s" in lines[4] and "2m00s later (1m00s to 3m00s)" in lines[4]
    assert "1 (one)" not in text and "1 job not shown" in text
    assert "1 job of other users counted" in text
    assert "-5m00s (-6m00s to -4m00s)" in text and "+25 points" in text
    assert "1 (one)" in what_if_text(_report(), "policy fifo", every=True)


def test_the_answer_says_that_a_change_is_not_the_difference_of_its_two_figures() -> None:
    figure = FigureRecord(_around(171.0), _around(192.0), _around(-8.0, 4.0))
    lines = what_if_text(replace(_report(), makespan=figure), "policy fifo").splitlines()
    (shown,) = (each for each in lines if each.startswith("last job"))
    assert "2m51s" in shown and "3m12s" in shown and "-8s" in shown
    assert lines[-1].startswith("CHANGE: median of the differences within each future")


def test_what_never_ends_is_told_in_words_and_fails_a_check() -> None:
    last = 90 * 86_400.0
    gone = WhatIfJob(4, "gone", "ada", "lab", "never", 0, _around(last), _around(last), _around(60.0),
                     _around(600.0), _around(last - 60.0), _around(last - 600.0))  # fmt: skip
    late = IntervalRecord(90.0, 80.0, last)
    change = IntervalRecord(30.0, 20.0, last - 60.0)
    risky = WhatIfJob(
        5, "risky", "ada", "lab", "later", 0, late, None, None, _around(60.0), None, change
    )
    none = FigureRecord(*[_around(0.0)] * 3)
    counts = {"never": 1, "later": 1}
    report = WhatIfReport(0.0, 16, (gone, risky), counts, none, none, none, none)
    text = what_if_text(report, "drain n1")
    (line,) = (each for each in text.splitlines() if "gone" in each)
    assert "in 1m00s -> never" in line and line.endswith("never ends")
    assert "30s later, in some futures never" in text
    assert "2 jobs: 1 never, 1 later" in text and "89d" not in text
    with pytest.raises(typer.Exit) as ended:
        check(replace(report, counts={"never": 1}))
    assert ended.value.exit_code == WORSE


def test_what_may_end_earlier_or_later_is_said_to_be_unclear() -> None:
    change = IntervalRecord(337.0, 0.0, 577.0)
    each = WhatIfJob(
        5, "bert", "ada", "lab", "unclear", 0, _around(900.0), None, None, _around(600.0), None, change
    )
    text = what_if_text(replace(_report(), jobs=(each,), counts={"unclear": 1}), "policy fifo")
    (line,) = (one for one in text.splitlines() if "bert" in one)
    assert line.endswith("unclear: +5m37s (0s to +9m37s)")
    assert "1 job: 1 unclear" in text


def test_a_time_that_is_unknown_on_both_sides_is_told_once() -> None:
    wide = IntervalRecord(600.0, 10.0, 90_000.0)
    wider = IntervalRecord(900.0, 10.0, 90_000.0)
    each = WhatIfJob(
        2, "two", "ada", "lab", "later", 0, wider, wider, wide, wide, _around(9.0), _around(9.0)
    )
    text = what_if_text(replace(_report(), jobs=(each,), counts={"later": 1}), "policy fifo")
    assert "unknown" in text and "unknown -> unknown" not in text


def test_a_long_answer_shows_signs_of_life_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve futures of a second each: a line every five seconds, and nothing of a short one."""
    now = 0.0
    with progress(lambda: now) as told:
        for done in range(1, 13):
            now += 1.0
            told(done, 12)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "playing 5/12 futures, 5s so far",
        "playing 10/12 futures, 10s so far",
    ]
    assert shown.out == ""
