"""Store snapshots and their decisions as regression tests.

    python -m tests.data.snapshots.make                     remake `busy.json`, from a daemon
    python -m tests.data.snapshots.make FILE [--policy P]   add a snapshot, such as that of a bug report

Beside each snapshot lie the decisions that `tests/unit/test_snapshots.py` expects, by policy. Fix the
bug first, then record: what is stored is taken to be right.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import muster
from muster.cli.offline.play import decision_record
from muster.files.snapshot import CycleSnapshot, load_snapshot

HERE = Path(__file__).parent
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "elastic", "devices": "1..4", "elastic": "restart", "duration": "2h"},
    {"name": "fixed", "devices": 2, "pool": "research", "preemptible": False},
    {"name": "large", "devices": 8, "priority": 3},
    {"name": "small", "devices": 1, "pool": "research", "duration": "10m"},
    {"name": "wide", "devices": "2..6", "elastic": "restart", "env": {"TOKEN": "not to be stored"}},
)


def expected(path: Path) -> Path:
    """The file with a snapshot's decisions."""
    return path.with_suffix(".decisions.json")


def decisions(snapshot: CycleSnapshot, policy: str) -> list[dict[str, Any]]:
    """What one cycle decides on the snapshot, as JSON; without the words of the reasons."""
    records = [decision_record(snapshot.view, each) for each in snapshot.decide(policy).decisions]
    return [{key: each for key, each in record.items() if key != "reason"} for record in records]


def record(path: Path, policies: set[str]) -> None:
    """Store the decisions of the snapshot's own policy and of these."""
    snapshot = load_snapshot(path)
    found = {policy: decisions(snapshot, policy) for policy in sorted({snapshot.policy, *policies})}
    expected(path).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def busy(path: Path) -> None:
    """A daemon with more jobs than devices."""
    with muster.local(devices=8) as client:
        client.set_pool("default", quotas={"cpu": {"reservation": 4}})
        client.set_pool("research", quotas={"cpu": {"reservation": 4}})
        for job in JOBS:
            client.submit({"command": ["sleep", "1000"], **job})
        for change in client.events(follow=True):
            if change.kind == "Started" and change.job == "elastic":
                break
        path.write_bytes(client.snapshot())


def main() -> None:
    """Store what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path, nargs="?", help="a snapshot to add")
    parser.add_argument("--policy", action="append", default=[], help="decide with this one, too")
    given = parser.parse_args()
    if given.file is None:
        busy(HERE / "busy.json")
        record(HERE / "busy.json", {"fifo", "tiresias"})
        return
    path = HERE / given.file.name
    if path != given.file.absolute():
        shutil.copy(given.file, path)
    record(path, set(given.policy))


if __name__ == "__main__":
    main()
