"""Changes that are only asked about, moves on request, and the past as a trace, on real daemons."""

import json
from pathlib import Path

import pytest

from muster.client import ClientError
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

WHOLE_NODE = {"devices": "4", "locality": "node"}


def _queue(daemon: Daemon) -> dict[str, int]:
    """One job runs on all devices, two wait for them: their numbers by name."""
    found = {}
    for name, duration in (("first", "10m"), ("long", "60m"), ("short", "1m")):
        handle = daemon.sh("sleep 600", name=name, devices="4", duration=duration)
        found[name] = handle.number
        if name == "first":
            daemon.await_status(name, "running")
    return found


def test_a_change_is_asked_about_and_not_made(make: Make, tmp_path: Path) -> None:
    daemon = make("--policy", "fifo", devices=4)
    daemon.start()
    numbers = _queue(daemon)
    told: list[tuple[int, int]] = []
    report = daemon.client.what_if(
        priorities={"short": 5}, worlds=8, told=lambda done, of: told.append((done, of))
    )
    verdicts = {job.name: job.verdict for job in report.jobs}
    assert verdicts == {"first": "same", "long": "later", "short": "earlier"}
    assert report.worlds == 8 and all(of == 8 for _, of in told)
    assert daemon.record("short").priority == 0

    worse = daemon.muster("whatif", "--priority", f"{numbers['short']}=5", "--check", "--worlds", "4")
    assert worse.returncode == 3 and "earlier" in worse.stdout
    same = daemon.muster("whatif", "--policy", "fifo", "--worlds", "2", "--check", "-o", "json")
    assert same.returncode == 0
    changes = [job["finish_change"] for job in json.loads(same.stdout)["jobs"]]
    assert changes == [{"middle": 0.0, "low": 0.0, "high": 0.0}] * 3

    dry = daemon.muster("policy", "set", "srtf", "--dry-run")
    assert "nothing was changed" in dry.stdout and daemon.client.policy().name == "fifo"
    drained = daemon.muster("node", "drain", "n0", "--dry-run")
    assert "never ends" in drained.stdout and daemon.client.nodes()[0].state == "up"
    pool = daemon.muster("pool", "set", "lab", "--limit", "2", "--dry-run")
    assert pool.returncode == 0 and len(daemon.client.pools()) == 1

    wrong = daemon.muster("whatif", "--add", "n9:dgx1")
    assert wrong.returncode == 2 and "no node is like 'dgx1'" in wrong.stderr
    ended = daemon.muster("whatif", "--priority", "9999=1")
    assert ended.returncode == 2 and "no job '9999'" in ended.stderr
    with pytest.raises(ClientError, match="at least one change"):
        daemon.client.what_if()

    saved = tmp_path / "now.json"
    daemon.muster("snapshot", saved)
    offline = daemon.muster("whatif", "--snapshot", saved, "--add", "n9:n0", "--worlds", "4")
    assert offline.returncode == 0 and "earlier" in offline.stdout


def test_a_user_sees_only_whom_they_may(make: Make) -> None:
    daemon = make("--policy", "fifo", devices=4)
    daemon.start()
    _queue(daemon)
    with daemon.client_of("ada") as ada:
        job = {"command": "true", "name": "mine", "devices": "4", "duration": "1m"}
        report = ada.what_if(submit=[{"job": job}], worlds=2)
        assert [each.name for each in report.jobs] == ["mine"] and report.jobs[0].verdict == "new"
        assert sum(report.counts.values()) == 4
        with pytest.raises(ClientError, match="you have no job 'long'"):
            ada.what_if(priorities={"long": 1})


def test_moves_make_room_for_a_gang_on_request(make: Make) -> None:
    daemon = make("--topology", "2x4", "--policy", "fifo", devices=8)
    daemon.start()
    for name in "abcd":
        # Moves would cost more than any wait of this test: the scheduler makes none by itself.
        daemon.sh("sleep 600", name=name, devices="2", pause="3h")
        daemon.await_status(name, "running")
    nodes = {name: daemon.record(name).nodes for name in "abcd"}
    beside = next(name for name in "bcd" if nodes[name] == nodes["a"])
    other = next(name for name in "bcd" if nodes[name] != nodes["a"])
    for name in (beside, other):
        daemon.client.stop(name)
        daemon.await_status(name, "cancelled")
    daemon.sh("sleep 600", name="gang", **WHOLE_NODE)

    (found,) = until(daemon.client.defrag, "the gang waits")
    assert found.name == "gang" and found.devices == 4 and not found.pays
    assert [each.before for each in found.moves]
    helps = daemon.muster("why", "gang").stdout
    assert f"(muster defrag {found.number} --apply): 4 workers once others have made way" in helps
    text = daemon.muster("defrag").stdout
    assert "needs 4 devices and would start" in text and "--apply" in text
    applied = daemon.muster("defrag", "gang", "--apply")
    assert applied.returncode == 0, applied.stderr
    daemon.await_status("gang", "running")
    left = ({"a", "b", "c", "d"} - {beside, other}).pop()
    daemon.await_status(left, "running")
    told = daemon.muster("why", found.moves[0].name).stdout
    assert "moved: 2 workers on" in told and "to make room for a gang" in told
    again = daemon.muster("defrag", "gang", "--apply")
    assert again.returncode == 1 and "no moves make room" in again.stderr


def test_the_past_is_a_trace_for_simulations(make: Make, tmp_path: Path) -> None:
    daemon = make(devices=4)
    daemon.start()
    for name in ("one", "two"):
        daemon.sh("sleep 0.5", name=name, devices="2")
        daemon.await_status(name, "succeeded")
    daemon.sh("sleep 600", name="still")
    month = tmp_path / "month.csv"
    told = daemon.muster("history", "export", month, "--anonymous")
    assert "2 jobs exported, 1 job left out" in told.stderr
    assert "one" not in month.read_text()
    cluster = tmp_path / "lab.yaml"
    cluster.write_text(
        "name: lab\nconfigurations: {box: {device: P100, devices: 4, cores: 8, memory: 16GB}}\n"
        "nodes: {n0: box}\n"
    )
    words = (
        "--cluster",
        cluster,
        "--trace",
        month,
        "--policies",
        "fifo,srtf",
        "--out",
        tmp_path / "out",
    )
    compared = daemon.muster("sim", "compare", *words)
    assert compared.returncode == 0, compared.stderr
    assert "srtf" in compared.stdout
