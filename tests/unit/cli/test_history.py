"""`muster curves` and `muster timeline`, through the real client and API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from muster.cli import connect
from muster.daemon.service.protocol import Caller
from muster.wire.api.history_records import CurveRecord, JobCurves, SpanRecord, TimelinePage
from tests.unit.api.harness import Api, running_api
from tests.unit.cli.invoke import muster

LOSS = CurveRecord("loss", (1, 5), (10.0, 20.0), (2.0, 0.5), (1, 2), (8, 48), (0.0, 4.0))
MINE = SpanRecord(
    0.0, 90.0, "running", 2, 0, {"n0": (0, 1)}, "started.fits", "the gang fits", 7, "net", "ann"
)
OTHERS = SpanRecord(5.0, None, "running", 0, 0, {"n1": (3,)})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A service with one job in its past, told on two pages."""

    async def curves(caller: Caller, which: str, after: float = 0.0) -> JobCurves:
        return JobCurves(7, (LOSS,), (MINE,)) if which == "7" else JobCurves(8)

    async def timeline(
        caller: Caller, since: Any, until: Any, cursor: str | None, limit: int
    ) -> TimelinePage:
        asked.append((since, until, cursor))
        if cursor is None:
            return TimelinePage(1.0, 99.0, (MINE,), "0.0:7")
        return TimelinePage(1.0, 99.0, (OTHERS,))

    asked: list[Any] = []
    with running_api() as found:
        monkeypatch.setattr(connect, "connect", lambda: found.client("root"))
        monkeypatch.setattr(found.service, "curves", curves, raising=False)
        monkeypatch.setattr(found.service, "timeline", timeline, raising=False)
        yield found
    assert all(each[:2] == (1.0, 99.0) for each in asked if each[2]), "pages are of one time"


def test_a_training_is_drawn_with_what_it_held(api: Api) -> None:
    shown = muster("curves", "7").stdout
    assert "loss        █▁  2 -> 0.5" in shown
    assert "steps 1 to 5" in shown
    assert "samples/s   ▁  4 -> 4" in shown
    assert "running  n0[0,1]  the gang fits" in shown
    assert muster("curves", "8").stdout == "job 8 has neither reported a step nor held a device\n"


def test_points_are_lines_for_other_programs(api: Api) -> None:
    assert muster("curves", "7", "-o", "csv").stdout.splitlines() == [
        "what,step,at,value,workers,samples",
        "loss,1,10.0,2.0,1,8",
        "loss,5,20.0,0.5,2,48",
    ]
    assert json.loads(muster("curves", "7", "-o", "json").stdout)["curves"][0]["rates"] == [0.0, 4.0]


def test_the_timeline_is_read_to_its_end_and_hides_what_is_not_mine(api: Api) -> None:
    lines = muster("timeline", "--since", "2h").stdout.splitlines()
    assert lines[0].split() == ["BEGAN", "FOR", "JOB", "STATUS", "DEVICES", "WHY"]
    assert "7 (net)" in lines[1] and "1m30s" in lines[1] and "the gang fits" in lines[1]
    assert lines[2].split()[2:] == ["-", "-", "running", "n1[3]", "-"]
    rows = muster("timeline", "-o", "csv").stdout.splitlines()
    assert rows[1] == '0.0,90.0,7,net,ann,running,"n0[0,1]",started.fits,the gang fits'
    assert len(json.loads(muster("timeline", "-o", "json").stdout)) == 2
