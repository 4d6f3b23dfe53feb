"""Snapshots: what the scheduler decides on, saved and decided on again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import Memory
from muster.files.errors import InputError
from muster.files.snapshot import CycleSnapshot, encode_snapshot, load_snapshot
from muster.model.job import Origin, Program
from muster.model.outlook import Outlook, Table
from muster.model.profile import CapturedShape, LayerType, ModelProfile, Tensor
from muster.model.view import View
from muster.perf.history.links import Carried, LinkHistory
from muster.perf.learnt.tables import ByType
from muster.perf.predict import Knowledge
from muster.perf.wires import LinkClass, Wire
from muster.policy.registry import POLICIES
from tests import builders
from tests.data.snapshots.make import HERE, decisions, expected
from tests.prop.worlds import History, histories
from tests.unit.cli.invoke import muster

STORED = sorted(path for path in HERE.glob("*.json") if not path.name.endswith(".decisions.json"))
SPEEDS = (Table((1.0, 1.9)), ByType((("A100", Table((1.0, 1.8), (32, 64))),)))


def again(snapshot: CycleSnapshot, folder: Path) -> CycleSnapshot:
    """The snapshot, written and read."""
    path = folder / "snapshot.json"
    path.write_bytes(encode_snapshot(snapshot))
    return load_snapshot(path)


def believed(view: View) -> View:
    """With something known of every second job."""
    known = [key for i, key in enumerate(view.jobs) if i % 2]
    outlooks = {key: Outlook(600.0, SPEEDS[i % 2], spread=0.4, here=0.5) for i, key in enumerate(known)}
    return replace(view, outlooks=outlooks)


def a_snapshot(policy: str = "fifo") -> CycleSnapshot:
    """A queue of two jobs for one node, one of them with secrets."""
    secret = (("TOKEN", "hunter2"),)
    program = Program(environ=secret, origin=Origin(secret, "/home/hunter2/python"))
    jobs = [
        builders.job("a", 4, command=("train", "--key", "hunter3"), program=program),
        builders.job("b", 8),
    ]
    cluster = builders.cluster(1)
    return CycleSnapshot(60.0, policy, believed(builders.view(cluster, jobs)), Memory())


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_snapshot_is_decided_on_as_before(path: Path) -> None:
    snapshot = load_snapshot(path)
    for policy, wanted in json.loads(expected(path).read_text(encoding="utf-8")).items():
        assert decisions(snapshot, policy) == wanted


@settings(max_examples=12, deadline=None)
@given(history=histories(), policy=st.sampled_from(sorted(POLICIES)))
def test_what_is_read_back_is_decided_on_alike(
    tmp_path_factory: pytest.TempPathFactory, history: History, policy: str
) -> None:
    """Whatever happened, and whatever the policy remembers of it."""
    folder = tmp_path_factory.mktemp("snapshots")
    world = history.world()
    world.policy = POLICIES[policy]
    for frame in history.play(world):
        view = believed(frame.before)
        snapshot = CycleSnapshot(frame.now, policy, view, frame.memory)
        assert again(snapshot, folder).decide() == snapshot.decide()


def test_secrets_are_left_out() -> None:
    text = encode_snapshot(a_snapshot()).decode()
    assert "hunter" not in text


def test_another_policy_begins_without_the_memory_of_the_first(tmp_path: Path) -> None:
    world_memory = replace(Memory(), policy=Memory())  # of no use to anybody
    snapshot = again(replace(a_snapshot(), memory=world_memory), tmp_path)
    assert snapshot.memory.policy == Memory()
    assert snapshot.decide("srtf") == replace(a_snapshot(), policy="srtf").decide()


def test_what_is_known_of_models_and_links_comes_back(tmp_path: Path) -> None:
    carried = Carried(LinkClass(Wire.NIC, "a"), 1e6, 0.5, 1.0)
    known = Knowledge(links=LinkHistory((carried,)))
    base = a_snapshot()
    profile = ModelProfile("m", (Tensor("w", 4, 1.0),), 1.0, 1, ((LayerType.DENSE, 1.0),), 1, 1, 1)
    shapes = {number: CapturedShape(profile, 8) for number in base.view.jobs}
    snapshot = again(replace(base, view=replace(base.view, shapes=shapes, knowledge=known)), tmp_path)
    assert snapshot.view.shapes == shapes
    assert snapshot.view.knowledge == known
    assert snapshot.view.knowledge.links.observed[0].link.wire is Wire.NIC
    assert snapshot.decide().decisions


DAMAGED = {
    "cut off": b'{"format":"muster-snapshot","now":1',
    "of another version": b'{"format":"muster-snapshot","now":1,"policy":"fifo","view":{"is":"a.B"}}',
    "no value": b'{"format":"muster-snapshot","now":1,"policy":"fifo","view":{"is":"policy.Policy"}}',
}


@pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED)
def test_a_snapshot_that_cannot_be_read_is_bad_input(body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(body)
    with pytest.raises(InputError, match="cannot be read as a snapshot"):
        load_snapshot(path)


def test_play_decides_on_a_snapshot_with_any_policy(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(encode_snapshot(a_snapshot()))
    text = muster("play", path).stdout
    assert "1 node, 8 A100; 2 jobs, policy fifo" in text
    assert "start     a" in text
    assert "waiting.devices" in text
    found = json.loads(muster("play", path, "--policy", "srtf", "-o", "json").stdout)
    assert {each["job"] for each in found} == {"a", "b"}
    assert found[0]["code"].partition(".")[0] in ("started", "waiting")


def test_play_says_what_goes_with_what(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(encode_snapshot(a_snapshot()))
    examples = Path(__file__).parents[2] / "examples"
    assert "give no job files" in str(muster("play", path, path, code=1).exception)
    cluster = examples / "clusters/lab.yaml"
    assert "at least one job file" in str(muster("play", cluster, code=1).exception)
