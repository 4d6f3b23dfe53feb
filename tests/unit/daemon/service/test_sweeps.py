"""Sweeps in a whole daemon: one fact to submit, members as they are wanted, rungs, restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import ConflictError, JobQuery, NotFoundError, RefusedError
from muster.model.event import Ended
from muster.model.sweep import Asha, Axis, MemberSubmitted, Sweep, SweepSubmitted
from muster.wire.api.sweep_records import SweepDetail
from muster.wire.tasks.messages import Report
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, BOB, program, running_daemon, until


def a_sweep(size: int = 8, *argv: str, name: str = "search", **fields: object) -> Sweep:
    axis = Axis("x", (), 1, size, whole=True)
    template = replace(program("search", *(argv or ("live",)), "{x}"), name=name)
    return replace(Sweep(0, template, (axis,)), **fields)  # type: ignore[arg-type]


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def running(made: RunningDaemon) -> list[str]:
    jobs = made.daemon.view.jobs.values()
    return sorted(each.job.name for each in jobs if each.phase == "running")


async def shown(made: RunningDaemon) -> SweepDetail:
    return await made.service.sweep(ANN, "search")


def test_a_thousand_members_are_one_fact_and_few_of_them_wait(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        record = await made.service.submit_sweep(ANN, a_sweep(1000))
        assert (record.number, record.members, record.status) == (1, 1000, "running")
        await until(made, lambda: len(running(made)) == 4)
        await until(made, lambda: len(made.daemon.view.jobs) == 12)
        facts = [entry.fact for entry in made.daemon.store.facts()]
        assert sum(isinstance(fact, SweepSubmitted) for fact in facts) == 1
        assert sum(isinstance(fact, MemberSubmitted) for fact in facts) == 12
        detail = await shown(made)
        assert len(detail.members) == 1000
        assert detail.sweep.counts == {"to come": 988, "waiting": 8, "running": 4}
        # Numbers are the members', whether or not they have come.
        assert (await made.service.submit(ANN, program("after"))).number == 1002

    play(tmp_path, scenario)


def test_members_end_one_after_the_other_and_then_the_sweep(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(20, "exit", "0"))
        await until(made, lambda: not made.daemon.state.sweeps)
        detail = await shown(made)
        assert detail.sweep.status == "finished"
        assert detail.sweep.counts == {"succeeded": 20}
        assert [each.params["x"] for each in detail.members] == [str(x) for x in range(1, 21)]
        page = await made.service.jobs(ANN, JobQuery(name="search.19"))
        assert [(each.sweep, each.params) for each in page.jobs] == [(1, {"x": "20"})]
        job = await made.service.job(ANN, "search.3")  # as submitted, though the sweep is over
        assert job.program is not None

    play(tmp_path, scenario)


def test_no_more_members_run_than_may_until_that_is_changed(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(8, at_most=2))
        await until(made, lambda: len(running(made)) == 2)
        assert len(made.daemon.view.jobs) == 2
        assert (await made.service.resize_sweep(ANN, "search", 3)).at_most == 3
        await until(made, lambda: len(running(made)) == 3)
        assert len(made.daemon.view.jobs) == 3

    play(tmp_path, scenario)


def test_a_stopped_sweep_stops_all_its_members(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(50))
        await until(made, lambda: len(running(made)) == 4)
        await made.service.stop_sweep(ANN, "search")
        await until(made, lambda: not made.daemon.state.sweeps)
        detail = await shown(made)
        assert detail.sweep.status == "stopped"
        assert {each.status for each in detail.members} == {"cancelled", "to come"}
        assert (await made.service.stop_sweep(ANN, "search")).status == "stopped"
        with pytest.raises(ConflictError, match="is over: stopped"):
            await made.service.resize_sweep(ANN, "search", 3)

    play(tmp_path, scenario)


def test_who_stops_all_members_stops_the_sweep(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(50, at_most=2))
        await until(made, lambda: len(running(made)) == 2)
        await made.service.stop_all(ANN, JobQuery(name="search.0"))
        await until(made, lambda: running(made) == ["search.1", "search.2"])
        await made.service.stop_all(ANN, JobQuery(user="ann"))
        await until(made, lambda: not made.daemon.state.sweeps)
        assert (await shown(made)).sweep.counts == {"cancelled": 3}

    play(tmp_path, scenario)


def test_a_loser_is_stopped_and_the_best_goes_on(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(4, asha=Asha(eta=2)))
        await until(made, lambda: len(running(made)) == 4)
        for number, loss in ((2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)):
            made.tasks.hear(number, Report("worker-0", {"loss": loss, "accuracy": 1 - loss}, 1))
        await until(made, lambda: running(made) == ["search.0", "search.1"])
        await until(made, lambda: len(made.daemon.view.jobs) == 2)
        found = {each.index: each for each in (await shown(made)).members}
        assert [found[place].status for place in "23"] == ["pruned", "pruned"]
        assert found["3"].reason == (
            "stopped at rung 1 (1 epoch): loss 0.5, the best half of 4 at or below 0.3"
        )
        assert found["0"].metrics == {"loss": 0.2, "accuracy": 0.8}
        assert found["0"].rung == 1
        changes = [each.text for each in await made.service.changes(ANN, 0, "search.0")]
        assert "reached rung 1 with 0.2" in changes
        assert "among the best of rung 1: goes on" in changes

    play(tmp_path, scenario)


def test_a_member_pauses_at_a_rung_and_only_its_sweep_releases_it(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(9, at_most=1, asha=Asha()))
        await until(made, lambda: running(made) == ["search.0"])
        made.tasks.hear(2, Report("worker-0", {"loss": 0.5}, 1))
        await until(made, lambda: running(made) == ["search.1"])
        paused = (await made.service.job(ANN, "search.0")).job
        assert (paused.status, paused.code) == ("waiting", "waiting.rung")
        assert paused.reason.startswith("paused at rung 1 (1 epoch): loss 0.5; the best third is known")
        with pytest.raises(ConflictError, match="paused by its sweep"):
            await made.service.release(ANN, "search.0")
        made.tasks.hear(3, Report("worker-0", {"loss": 0.6}, 1))
        await until(made, lambda: running(made) == ["search.2"])
        made.tasks.hear(4, Report("worker-0", {"loss": 0.7}, 1))
        await until(made, lambda: running(made) == ["search.0"])

    play(tmp_path, scenario)


def test_another_daemon_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    machine = Machine()

    async def first() -> None:
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit_sweep(ANN, a_sweep(9, at_most=1, asha=Asha()))
            await until(made, lambda: running(made) == ["search.0"])
            made.tasks.hear(2, Report("worker-0", {"loss": 0.5}, 1))
            await until(made, lambda: running(made) == ["search.1"])

    async def second() -> None:
        async with running_daemon(tmp_path, machine) as made:
            assert (await shown(made)).members[0].metrics == {"loss": 0.5}
            assert (await made.service.submit(ANN, program("after"))).number == 11
            for number, then in ((3, "search.2"), (4, "search.0")):
                made.tasks.hear(number, Report("worker-0", {"loss": 0.9}, 1))
                await until(made, lambda then=then: then in running(made))  # type: ignore[misc]

    asyncio.run(first())
    asyncio.run(second())


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit_sweep(ANN, a_sweep(8))
        with pytest.raises(ConflictError, match="a sweep named 'search' of ann is still active"):
            await service.submit_sweep(ANN, a_sweep(8))
        with pytest.raises(RefusedError, match="more than 63 characters"):
            await service.submit_sweep(ANN, a_sweep(8, name="a" * 62))
        with pytest.raises(NotFoundError, match="you have no sweep 'search'"):
            await service.sweep(BOB, "search")
        with pytest.raises(ConflictError, match=r"search\.7 is not over but waiting"):
            await service.continue_sweep(ANN, "search", ["7"])
        with pytest.raises(NotFoundError, match="has no member '9'"):
            await service.continue_sweep(ANN, "search", ["9"])
        with pytest.raises(NotFoundError, match="'search' is a sweep; name one of its members"):
            await service.job(ANN, "search")
        with pytest.raises(NotFoundError, match="you have no job 'search'"):
            await service.job(BOB, "search")
        assert await service.sweeps(BOB) == []
        assert [each.name for each in await service.sweeps(ANN)] == ["search"]

    play(tmp_path, scenario)


def test_a_key_submits_a_sweep_once(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        first = await made.service.submit_sweep(ANN, a_sweep(8), "k")
        again = await made.service.submit_sweep(ANN, a_sweep(8), "k")
        assert again.number == first.number
        with pytest.raises(ConflictError, match="the key 'k' was used"):
            await made.service.submit_sweep(ANN, a_sweep(9), "k")

    play(tmp_path, scenario)


def test_the_end_of_a_member_is_told_as_that_of_any_job(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(3, "exit", "1"))
        await until(made, lambda: not made.daemon.state.sweeps)
        kinds = [type(entry.fact) for entry in made.daemon.store.facts()]
        assert kinds.count(Ended) == 3
        assert (await shown(made)).sweep.counts == {"failed": 3}

    play(tmp_path, scenario)
