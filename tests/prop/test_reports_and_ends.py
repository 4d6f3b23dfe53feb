"""Whatever numbers a task reports, its job ends when its processes do, and its devices come free."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.entry import Entry
from muster.model.event import Submitted
from muster.wire.api.records import PredictionRecord
from muster.wire.tasks.codec import BadMessageError, decode
from muster.wire.tasks.messages import Changed, Message
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import program, running_daemon

NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, 10**40, -(10**40)]),
    st.sampled_from([0.1, 1e15, 1e300, 1e-300, -0.5, float("inf"), float("-inf"), float("nan")]),
)
TIMES = ("loss", "forward", "backward", "wait", "sync", "seconds")
KINDS: dict[str, dict[str, object]] = {
    "StepDone": dict.fromkeys(("formation", "step", "epoch", "samples", *TIMES)),
    "Changed": {
        **dict.fromkeys(["formation", "step", "pause"]),
        "members": ["worker-0"],
        "cause": "plan",
    },
    "Captured": dict.fromkeys(["steps", "batch", "shape"]),
    "Transferred": {**dict.fromkeys(["formation", "bytes", "seconds"]), "link": "ring"},
    "Saved": {**dict.fromkeys(["step", "seconds"]), "path": "/c"},
}
"""The numbers of each message, to be drawn, and the rest of it."""


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(sorted(KINDS)))
    drawn = {name: draw(NUMBERS) if value is None else value for name, value in KINDS[kind].items()}
    if kind == "Captured":
        drawn["shape"] = {"operations": drawn["shape"]}
    return json.dumps({"kind": kind, "task": "worker-0", **drawn}).encode()


def heard(line: bytes) -> Message | None:
    try:
        return decode(line)
    except BadMessageError:
        return None


async def live_through(made: RunningDaemon, machine: Machine, number: int, said: list[Message]) -> None:
    """A job whose task says all this, and ends."""
    daemon = made.daemon
    job = replace(program(f"j{number}"), number=number)
    daemon.post(Entry([Submitted(job, daemon.clock.now())]))
    while not (gang := daemon.state.gangs.get(number)) or not gang.tasks:
        await daemon.turn()
    for message in said:
        made.tasks.hear(number, message)
        daemon.touch(number)
        await daemon.turn()
    machine.finish(gang.tasks[0].task)
    await daemon.turn()
    assert number not in daemon.view.jobs
    assert all(node.free == 0b1111 for node in daemon.view.cluster.nodes)
    record = daemon.store.job(number)
    assert record is not None
    assert record.status == "succeeded"


def test_a_job_ends_whatever_numbers_its_task_has_reported(tmp_path: Path) -> None:
    machine = Machine()
    with asyncio.Runner() as runner:
        opened = running_daemon(tmp_path, machine, begin=False)
        made = runner.run(opened.__aenter__())
        numbers = iter(range(1, 10_000))

        @settings(max_examples=60, deadline=None)
        @given(st.lists(lines(), max_size=6))
        def lives(said: list[bytes]) -> None:
            messages = [message for message in map(heard, said) if message is not None]
            runner.run(live_through(made, machine, next(numbers), messages))

        lives()
        runner.run(opened.__aexit__(None, None, None))


def test_a_list_entry_that_cannot_be_written_keeps_no_fact_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.daemon.learn.progress.isfinite", lambda _: True)
    overlooked = Changed("worker-0", 1, 5, ("worker-0",), float("inf"), "plan")

    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine, begin=False) as made:
            made.daemon.predict(1, PredictionRecord(0.0, "finish", float("inf")))
            await live_through(made, machine, 1, [overlooked])

    asyncio.run(scenario())
