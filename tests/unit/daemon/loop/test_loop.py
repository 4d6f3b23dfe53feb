"""The daemon as a whole: jobs in, tasks out, through the journal; restarts, refusals, a full disk."""

import asyncio
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.recover import ClusterChangedError, load_state
from muster.daemon.service.protocol import (
    ConflictError,
    ForbiddenError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
    UnavailableError,
)
from muster.model.job import Program
from muster.model.pool import Quota
from muster.store.batch import Batch
from muster.store.errors import StoreError
from muster.store.store import open_store
from tests.contract.fake_executor import Machine, RefusingExecutor
from tests.unit.daemon.running_daemons import (
    ADMIN,
    ANN,
    BOB,
    LONG,
    program,
    running_daemon,
    site,
    state_of,
    until,
)


async def ends(made: RunningDaemon, which: str, status: str = "succeeded") -> None:
    async with asyncio.timeout(LONG):
        while (await made.service.job(ADMIN, which)).job.status != status:
            await asyncio.sleep(0.005)


def run(scenario: object) -> None:
    asyncio.run(scenario)  # type: ignore[arg-type]


def test_a_job_goes_from_submission_to_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            record = await made.service.submit(ANN, program("a", "print", "hello", workers=2))
            assert (record.number, record.name, record.user) == (1, "a", "ann")
            await ends(made, "a")
            detail = await made.service.job(ANN, "1")
            assert [task.status for task in detail.tasks] == ["ended", "ended"]
            kinds = [change.kind for change in detail.changes]
            assert kinds[0] == "Submitted"
            assert kinds[-1] == "Ended"
            assert kinds.index("StartBegun") < kinds.index("TaskOrdered") < kinds.index("Started")
            log = await made.service.log(ANN, "a", detail.tasks[0].log)
            assert log.data == b"hello\n"
            assert all(node.free == node.devices for node in await made.service.nodes(ANN))

    run(scenario())


def test_a_job_without_a_name_gets_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            names = [(await made.service.submit(ANN, program("", "exit", "0"))).name for _ in range(3)]
            assert names == ["job-1", "job-2", "job-3"]

    run(scenario())


def test_submitted_twice_with_one_key_it_is_one_job(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            first = await made.service.submit(ANN, program("a", "exit", "0"), "key")
            again = await made.service.submit(ANN, program("a", "exit", "0"), "key")
            assert first.number == again.number
            same = [made.service.submit(ANN, program("b", "exit", "0"), "both") for _ in range(3)]
            assert len({record.number for record in await asyncio.gather(*same)}) == 1
            await ends(made, "a")
            assert (await made.service.submit(ANN, program("a", "exit", "0"), "key")).number == 1

    run(scenario())


def test_a_name_in_use_and_a_request_too_large_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a"))
            with pytest.raises(ConflictError, match="still active"):
                await made.service.submit(ANN, program("a"))
            with pytest.raises(RefusedError, match=r"can never run.*nearest"):
                await made.service.submit(ANN, program("b", workers=9))
            await made.service.stop(ANN, "a")
            await ends(made, "a", "cancelled")
            assert (await made.service.submit(ANN, program("a"))).number > 1

    run(scenario())


def test_who_waits_is_told_why_and_starts_when_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a", workers=4))
            await until(made, lambda: bool(made.daemon.state.gangs))
            record = await made.service.submit(ANN, program("b", "exit", "0", workers=4))
            await until(made, lambda: made.daemon.summaries[2].code.startswith("waiting."))
            record = (await made.service.job(ANN, "b")).job
            assert "held by a (4)" in record.reason
            assert (await made.service.stop(ANN, "b")).status == "cancelled"
            await made.service.submit(ANN, program("b", "exit", "0", workers=4))
            assert (await made.service.stop(ANN, "a")).status in ("stopping", "cancelled")
            await ends(made, "b")

    run(scenario())


def test_a_failed_job_keeps_its_exit_code_and_last_lines(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", workers=2))
            await until(made, lambda: len(machine.processes) == 2)
            task = next(iter(machine.processes))
            machine.say(task, "Traceback\nValueError: no\n")
            machine.finish(task, 3)
            await ends(made, "a", "failed")
            record = (await made.service.job(ANN, "a")).job
            assert record.exit_code == 3
            assert "ValueError: no" in (record.error or "")
            assert record.failures == 1
            assert all(process.exited for process in machine.processes.values())

    run(scenario())


def test_an_executor_that_refuses_fails_the_job_and_frees_its_devices(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path, executor=RefusingExecutor()) as made:
            await made.service.submit(ANN, program("a", program=Program(losses=0)))
            await ends(made, "a", "failed")
            assert "no room on any node" in ((await made.service.job(ANN, "a")).job.error or "")
            assert [node.free for node in await made.service.nodes(ANN)] == [4]

    run(scenario())


def test_users_see_and_stop_their_own_jobs_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a"))
            await made.service.submit(BOB, program("b", user="bob", pool="other"))
            assert [job.name for job in (await made.service.jobs(ANN, JobQuery())).jobs] == ["a"]
            with pytest.raises(NotFoundError):
                await made.service.stop(ANN, "b")
            with pytest.raises(NotFoundError):
                await made.service.log(ANN, "b", "1/worker-0")
            with pytest.raises(ForbiddenError):
                await made.service.set_policy(ANN, "drf")
            await made.service.set_pool(ADMIN, "other", None, {}, shared=True)
            assert len((await made.service.jobs(ANN, JobQuery())).jobs) == 2
            await made.service.stop(ANN, "b")

    run(scenario())


def test_pages_hold_every_job_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            for _ in range(7):
                await made.service.submit(ANN, program("", "exit", "0"))
            seen, cursor = [], None
            while True:
                page = await made.service.jobs(ANN, JobQuery(cursor=cursor, limit=3))
                seen += [job.number for job in page.jobs]
                cursor = page.next
                if cursor is None:
                    break
            assert seen == [7, 6, 5, 4, 3, 2, 1]

    run(scenario())


def test_a_resize_by_hand_changes_what_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", workers=2, restarts=True))
            await until(made, lambda: state_of(made, "a").phase == "running")
            assert (await made.service.resize(ANN, "a", Shape(3, 3))).asked == "3"
            await until(made, lambda: len(made.daemon.state.gangs[1].tasks) == 3)
            with pytest.raises(RefusedError, match="can never run"):
                await made.service.resize(ANN, "a", Shape(9, 9))
            await made.service.stop(ANN, "a")
            await ends(made, "a", "cancelled")
            with pytest.raises(ConflictError, match="is over"):
                await made.service.resize(ANN, "a", Shape(1, 1))

    run(scenario())


def test_nodes_are_drained_and_used_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            (node,) = await made.service.nodes(ADMIN)
            assert (await made.service.drain(ADMIN, node.name)).state == "draining"
            await made.service.submit(ANN, program("a", "exit", "0"))
            await until(made, lambda: bool(made.daemon.summaries[1].code))
            assert state_of(made, "a").phase == "waiting"
            await made.service.resume(ADMIN, node.name)
            await ends(made, "a")
            with pytest.raises(NotFoundError):
                await made.service.drain(ADMIN, "nowhere")

    run(scenario())


def test_pools_are_made_changed_and_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            record = await made.service.set_pool(ADMIN, "new", None, {"cpu": Quota(limit=1)})
            assert [quota.limit for quota in record.quotas] == [1]
            with pytest.raises(RefusedError, match="reserve 6 cpu, but the cluster has 4"):
                await made.service.set_pool(ADMIN, "new", None, {"cpu": Quota(reservation=2)})
            with pytest.raises(RefusedError, match="not a device type of this cluster"):
                await made.service.set_pool(ADMIN, "new", None, {"H100": Quota()})
            await made.service.submit(ANN, program("a", pool="new"))
            with pytest.raises(ConflictError, match=r"job 1 \(a\) is in pool 'new'"):
                await made.service.remove_pool(ADMIN, "new")
            await made.service.stop(ANN, "a")
            await ends(made, "a", "cancelled")
            await made.service.remove_pool(ADMIN, "new")
            assert [pool.name for pool in await made.service.pools(ADMIN)] == ["default", "other"]

    run(scenario())


def test_the_policy_and_tokens(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            assert (await made.service.set_policy(ADMIN, "drf")).name == "drf"
            with pytest.raises(RefusedError, match="policies: "):
                await made.service.set_policy(ADMIN, "best")
            token = await made.service.create_token(ADMIN, "ci", "ann", "user")
            assert token.secret is not None
            assert await made.service.identify(token.secret) == ANN
            assert [each.secret for each in await made.service.tokens(ADMIN)] == [None]
            with pytest.raises(NotFoundError):
                await made.service.revoke_token(BOB, "ci")
            await made.service.revoke_token(ANN, "ci")
            assert await made.service.identify(token.secret) is None
        async with running_daemon(tmp_path) as made:
            assert (await made.service.policy(ADMIN)).name == "drf"

    run(scenario())


def test_changes_are_followed_to_the_jobs_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a"))

            async def read() -> list[str]:
                changes = made.service.follow(ANN, 0, "a")
                return [each.kind async for some in changes for each in some]

            reading = asyncio.create_task(read())
            await until(made, lambda: state_of(made, "a").phase == "running")
            machine.finish(next(iter(machine.processes)))
            async with asyncio.timeout(LONG):
                kinds = await reading
            assert (kinds[0], kinds[-1]) == ("Submitted", "Ended")

    run(scenario())


def test_a_daemon_that_is_started_again_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", workers=2))
            await made.service.submit(ANN, program("b", workers=4))
            await until(made, lambda: state_of(made, "a").phase == "running")
            tasks = list(machine.processes)
        machine.finish(tasks[0])  # while nobody looks
        async with running_daemon(tmp_path, machine) as made:
            machine.finish(tasks[1])
            await ends(made, "a")
            await until(made, lambda: state_of(made, "b").phase == "running")
            assert len(machine.processes) == 6
            assert (await made.service.submit(ANN, program("c"))).number == 3

    run(scenario())


def test_the_journal_folds_to_the_state_whether_from_a_snapshot_or_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", workers=2))
            await until(made, lambda: state_of(made, "a").phase == "running")
            await made.daemon.snapshot()
            await made.service.submit(ANN, program("b", "exit", "0"))
            await ends(made, "b")
            state = made.daemon.state
        store, where = open_store(str(tmp_path / "muster.db")), site(tmp_path)
        assert load_state(store, where.cluster, where.pools, "fifo") == state
        empty = type(state)(type(state.view)(0, where.cluster, where.pools, {}), {}, "fifo")
        assert empty.after(entry.fact for entry in store.facts()) == state
        store.close()

    run(scenario())


def test_another_cluster_is_refused_while_jobs_live(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a"))
        store, other = open_store(str(tmp_path / "muster.db")), site(tmp_path, devices=8)
        with pytest.raises(ClusterChangedError, match="these jobs are active: a"):
            load_state(store, other.cluster, other.pools, "fifo")
        store.close()

    run(scenario())


def test_a_full_disk_refuses_users_orders_nothing_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a"))
            await until(made, lambda: state_of(made, "a").phase == "running")
            write = made.daemon.store.write

            def full(batch: Batch) -> tuple[int, int]:
                raise StoreError("no space left on device")

            monkeypatch.setattr(made.daemon.store, "write", full)
            monkeypatch.setattr(made.daemon.store, "set_setting", lambda *_: full(Batch()))
            with pytest.raises(UnavailableError, match="no space left"):
                await made.service.submit(ANN, program("b"))
            machine.finish(next(iter(machine.processes)))  # is not forgotten
            await until(made, lambda: bool(made.daemon.trouble))
            assert (await made.service.status()).trouble
            assert len(machine.processes) == 1
            with pytest.raises(UnavailableError):
                await made.service.stop(ANN, "a")
            monkeypatch.setattr(made.daemon.store, "write", write)
            await ends(made, "a")
            assert (await made.service.submit(ANN, program("b", "exit", "0"))).name == "b"
            await ends(made, "b")

    run(scenario())


def test_what_can_never_be_written_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            bad = made.service.submit(ANN, program("bad", duration=float("inf")))
            good = made.service.submit(ANN, program("good", "exit", "0"))
            told = await asyncio.gather(bad, good, return_exceptions=True)
            assert isinstance(told[0], RefusedError)
            await ends(made, "good")
            with pytest.raises(NotFoundError):
                await made.service.job(ANN, "bad")
            assert not (await made.service.status()).trouble

    run(scenario())


def test_nothing_is_ordered_before_the_journal_has_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            journal, begin = made.daemon.store, machine.begin
            unknown: list[object] = []

            def checked(order):  # type: ignore[no-untyped-def]
                known = [getattr(entry.fact, "task", None) for entry in journal.facts()]
                unknown.extend([order.id] if order.id not in known else [])
                return begin(order)

            machine.begin = checked  # type: ignore[method-assign]
            for name in "abc":
                await made.service.submit(ANN, program(name, "exit", "0", workers=2))
            for name in "abc":
                await ends(made, name)
            assert unknown == []

    run(scenario())


def test_a_lost_node_sends_the_job_back_to_the_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", workers=2))
            await until(made, lambda: state_of(made, "a").phase == "running")
            (node,) = await made.service.nodes(ADMIN)
            machine.lose(node.name)
            await until(made, lambda: state_of(made, "a").phase == "waiting")
            assert (await made.service.nodes(ADMIN))[0].state == "lost"
            await made.service.resume(ADMIN, node.name)
            await until(made, lambda: state_of(made, "a").phase == "running")
            assert len(machine.processes) == 4

    run(scenario())


def test_a_forecast_says_where_and_why_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            answer = await made.service.forecast(ANN, program("a", workers=2))
            assert answer.starts_now
            assert answer.placement
            await made.service.submit(ANN, program("b", workers=4))
            await until(made, lambda: state_of(made, "b").phase == "running")
            waits = await made.service.forecast(ANN, program("a", workers=2))
            assert not waits.starts_now
            assert "held by b" in waits.reason
            assert (await made.service.forecast(ANN, program("c", workers=9))).problem
            assert list(made.daemon.view.names) == ["ann/b"]

    run(scenario())
