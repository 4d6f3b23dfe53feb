"""Nodes, pools, policies and tokens, as administrators and users ask for them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.entry import Entry
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
)
from muster.executors.accounts import Submitters
from muster.model.event import NodeAdded, NodeDraining
from muster.model.offer import NodeOffer
from muster.model.pool import Quota
from muster.wire.agents.token_proof import digest
from muster.wire.api.records import NodeHealth
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, state_of, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def test_a_drained_node_takes_no_jobs_until_it_is_resumed(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        (node,) = await made.service.nodes(ANN)
        assert (await made.service.drain(ADMIN, node.name)).state == "draining"
        await made.service.submit(ANN, program("a"))
        await until(made, lambda: bool(made.daemon.summaries[1].code))
        assert state_of(made, "a").phase == "waiting"
        assert (await made.service.resume(ADMIN, node.name)).state == "up"
        await until(made, lambda: state_of(made, "a").phase == "running")
        with pytest.raises(NotFoundError, match="n99"):
            await made.service.drain(ADMIN, "n99")

    play(tmp_path, scenario)


def test_a_node_that_its_engine_takes_back_cannot_be_resumed(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        (node,) = await made.service.nodes(ADMIN)
        taken = NodeDraining(node.name, 1.0, 1e9, "preempted by Slurm", taken=True)
        await made.daemon.put(Entry([taken]))
        drained = await made.service.drain(ADMIN, node.name)
        assert (drained.until, drained.why) == (1e9, "preempted by Slurm")
        with pytest.raises(ConflictError, match=r"its engine takes it back \(preempted by Slurm\)"):
            await made.service.resume(ADMIN, node.name)

    play(tmp_path, scenario)


def test_a_node_with_a_full_disk_is_drained_until_it_has_room(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        daemon, service = made.daemon, made.service
        (node,) = daemon.view.cluster.nodes
        offer = NodeOffer(node.name, node.millicores, node.memory, engine="slurm", address="10.0.0.1")
        daemon.post(Entry([NodeAdded(replace(node, offer=offer), daemon.clock.now())]))
        daemon.agents = lambda: {node.name: NodeHealth(disk_free=10**6)}
        await until(made, lambda: daemon.view.cluster.nodes[0].state == "draining")
        (record,) = await service.nodes(ANN)
        assert (record.connected, record.engine, record.address) == (True, "slurm", "10.0.0.1")
        assert record.why == "unhealthy: its disk is full (less than 512 MB free)"
        assert record.trouble and record.since is not None
        daemon.agents = lambda: {node.name: NodeHealth(disk_free=10**10)}
        await until(made, lambda: daemon.view.cluster.nodes[0].state == "up")
        (record,) = await service.nodes(ANN)
        assert (record.why, record.trouble) == ("", "")
        daemon.agents = dict
        assert (await service.node(ANN, node.name)).connected is False

    play(tmp_path, scenario)


def test_a_node_shows_the_tasks_that_the_reader_may_see(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("a"))
        await until(made, lambda: state_of(made, "a").phase == "running")
        (node,) = await made.service.nodes(ANN)
        assert node.tasks == (), "lists stay short"
        (task,) = (await made.service.node(ANN, node.name)).tasks
        assert (task.job, task.task, len(task.devices)) == ("a", "worker-0", 1)
        assert (await made.service.node(BOB, node.name)).tasks == ()
        with pytest.raises(NotFoundError, match="n99"):
            await made.service.node(ANN, "n99")

    play(tmp_path, scenario)


def test_pools_in_parts_follow_the_devices_and_never_promise_more_than_all(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.set_pool(ADMIN, "default", None, {"*": Quota()})
        half = await service.set_pool(ADMIN, "lab", None, {"*": Quota(reservation_part=0.5)})
        devices = sum(made.daemon.view.cluster.devices_by_type().values())
        (quota,) = [each for each in half.quotas if each.device_type == "cpu"]
        assert (quota.reservation, quota.reservation_part) == (devices // 2, 0.5)
        with pytest.raises(RefusedError, match="reserve 110% of"):
            await service.set_pool(ADMIN, "more", None, {"*": Quota(reservation_part=0.6)})

    play(tmp_path, scenario)


def test_an_administrator_is_told_what_a_drain_does_to_whom(tmp_path: Path) -> None:
    """A user, who may not know of others' jobs, sees the deadline alone."""

    async def scenario(made: RunningDaemon) -> None:
        (node,) = await made.service.nodes(ANN)
        await made.service.submit(ANN, replace(program("plain"), resumes=False))
        await made.service.submit(ANN, program("saves"))
        await until(
            made, lambda: state_of(made, "plain").phase == state_of(made, "saves").phase == "running"
        )
        drained = await made.service.drain(ADMIN, node.name)
        assert [(each.name, each.how, each.at) for each in drained.leaving] == [
            ("ann/plain", "ends", None),
            ("ann/saves", "ends", None),
        ]
        drained = await made.service.drain(ADMIN, node.name, 3600.0)
        plain, saves = drained.leaving
        assert (plain.how, saves.how) == ("starts over", "queues")  # there is no other node
        assert drained.until is not None and plain.at is not None and plain.lost is not None
        assert plain.at == drained.until - program("plain").program.grace
        assert 3500.0 < plain.lost < 3600.0
        (seen,) = await made.service.nodes(ANN)
        assert (seen.until, seen.leaving) == (drained.until, ())

    play(tmp_path, scenario)


def test_an_idle_pool_is_entitled_to_nothing(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        async def entitled() -> int:
            return sum(pool.quotas[0].entitled for pool in await made.service.pools(ANN))

        job = await made.service.submit(ANN, program("a"))
        await until(made, lambda: state_of(made, "a").phase == "running")
        assert await entitled() == 1
        await made.service.stop(ANN, str(job.number))
        await until(made, lambda: not made.daemon.view.jobs)
        assert await entitled() == 0

    play(tmp_path, scenario)


def test_users_may_change_nothing_but_their_own(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        for asked in (
            service.drain(ANN, "any"),
            service.set_pool(ANN, "mine", None, {}),
            service.remove_pool(ANN, "other"),
            service.set_policy(ANN, "srtf"),
            service.create_token(ANN, "t", "ann", "admin"),
        ):
            with pytest.raises(ForbiddenError, match="admin"):
                await asked

    play(tmp_path, scenario)


def test_a_pool_keeps_what_a_change_does_not_name(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.set_pool(ADMIN, "lab", None, {"cpu": Quota(limit=2)}, shared=True)
        changed = await service.set_pool(ADMIN, "lab", "other", {})
        assert (changed.parent, changed.quotas[0].limit, changed.shared) == ("other", 2, True)
        assert not (await service.set_pool(ADMIN, "lab", None, {}, shared=False)).shared
        await service.remove_pool(ADMIN, "lab")
        assert [pool.name for pool in await service.pools(ANN)] == ["default", "other"]
        with pytest.raises(NotFoundError):
            await service.remove_pool(ADMIN, "lab")

    play(tmp_path, scenario)


def test_pools_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        with pytest.raises(RefusedError, match="cpu"):
            await service.set_pool(ADMIN, "lab", None, {"H100": Quota()})
        with pytest.raises(RefusedError, match="5"):
            await service.set_pool(ADMIN, "lab", None, {"cpu": Quota(reservation=1)})
        with pytest.raises(RefusedError):
            await service.set_pool(ADMIN, "lab", "no such pool", {})
        await service.submit(ANN, program("a"))
        await service.submit(ANN, replace(program("b"), pool="other"))
        with pytest.raises(ConflictError):
            await service.remove_pool(ADMIN, "other")
        with pytest.raises(RefusedError, match="'default' cannot be removed: jobs that name no pool"):
            await service.remove_pool(ADMIN, "default")

    play(tmp_path, scenario)


def test_another_policy_is_used_from_the_next_cycle_on_and_after_a_restart(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        assert (await made.service.policy(ANN)).name == "fifo"
        record = await made.service.set_policy(ADMIN, "srtf")
        assert record.name == "srtf"
        assert record.text
        assert "fifo" in record.policies
        assert made.daemon.deciding.policy == "srtf"
        with pytest.raises(RefusedError, match="fifo"):
            await made.service.set_policy(ADMIN, "luck")

    play(tmp_path, scenario)

    async def restarted(made: RunningDaemon) -> None:
        assert (await made.service.policy(ANN)).name == "srtf"

    play(tmp_path, restarted)


def test_tokens_are_made_recognised_and_revoked(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        made_token = await service.create_token(ADMIN, "laptop", "ann", "user")
        assert made_token.secret
        assert await service.identify(made_token.secret) == Caller("ann")
        assert await service.identify("guessed") is None
        with pytest.raises(ConflictError, match="laptop"):
            await service.create_token(ADMIN, "laptop", "bob", "user")
        with pytest.raises(RefusedError, match="user"):
            await service.create_token(ADMIN, "x", "bob", "king")
        (listed,) = await service.tokens(ANN)
        assert (listed.name, listed.secret) == ("laptop", None)
        assert listed.used is not None
        assert await service.tokens(BOB) == []
        with pytest.raises(NotFoundError):
            await service.revoke_token(BOB, "laptop")
        await service.revoke_token(ANN, "laptop")
        assert await service.identify(made_token.secret) is None

    play(tmp_path, scenario)


def test_where_jobs_run_as_their_submitters_users_have_accounts(tmp_path: Path) -> None:
    async def scenario() -> None:
        apart = Submitters("root", separate=True)
        async with running_daemon(tmp_path, submitters=apart) as made:
            service = made.service
            with pytest.raises(RefusedError, match="'nosuchuser' does not exist on this machine"):
                await service.create_token(ADMIN, "x", "nosuchuser", "user")
            await service.create_token(ADMIN, "x", "nosuchuser", "admin")
            with pytest.raises(RefusedError, match="'nosuchuser' does not exist on this machine"):
                await service.set_pool(
                    ADMIN, "default", None, {}, rules=PoolRules(allow=("root", "nosuchuser"))
                )
            await service.create_token(ADMIN, "own", "root", "user")

    asyncio.run(scenario())


def test_who_asks_for_limits_is_told_where_they_are_not_enforced(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits, users = "memory is not enforced: no cgroups", "all jobs run as root"
        async with running_daemon(tmp_path, caveats=(limits, users)) as made:
            plain = program("plain")
            roles = tuple(replace(each, need=replace(each.need, memory=10**9)) for each in plain.roles)
            limited = replace(plain, name="limited", roles=roles)
            assert (await made.service.forecast(ANN, limited)).caveats == (limits,)
            for job, told in ((plain, ()), (limited, (limits,))):
                roles = tuple(
                    replace(each, need=replace(each.need, millicores=0)) for each in job.roles
                )
                taken = await made.service.submit(ANN, replace(job, roles=roles))
                assert (await made.service.job(ANN, str(taken.number))).caveats == told

    asyncio.run(scenario())


def test_a_secret_is_not_stored_as_it_is() -> None:
    assert "secret" not in digest("secret")
    assert digest("secret") == digest("secret") != digest("Secret")


def test_status_counts_devices_and_jobs(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("a", workers=3))
        await made.service.submit(ANN, program("b", workers=2))
        await until(made, lambda: bool(made.daemon.summaries[2].code))
        status = await made.service.status()
        assert (status.devices, status.free) == (4, 1)
        assert (status.running, status.pending) == (1, 1)
        assert (status.policy, status.trouble) == ("fifo", "")
        assert status.cycles > 0

    play(tmp_path, scenario)


def test_an_aim_goes_with_a_policy_that_has_it(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        with pytest.raises(
            RefusedError, match="pool 'other': fifo has no aim 'makespan', nor any other"
        ):
            await service.set_pool(ADMIN, "other", None, {}, rules=PoolRules(aim="makespan"))
        rules = PoolRules(policy="muster", aim="makespan")
        record = await service.set_pool(ADMIN, "other", None, {}, rules=rules)
        assert (record.policy, record.own_aim) == ("muster:aim=makespan", "makespan")
        for rules in (PoolRules(lifted=("policy",)), PoolRules(policy="fifo")):
            with pytest.raises(RefusedError, match=r"'makespan'.*; muster pool set other --aim none"):
                await service.set_pool(ADMIN, "other", None, {}, rules=rules)
        assert (await service.set_policy(ADMIN, "muster:makespan=0.6")).name == "muster:makespan=0.6"
        await service.set_pool(ADMIN, "other", None, {}, rules=PoolRules(lifted=("policy",)))
        way_out = "nor any other; muster pool set other --aim none lifts it"
        with pytest.raises(RefusedError, match=way_out):
            await service.set_policy(ADMIN, "fifo")
        record = await service.set_pool(ADMIN, "other", None, {}, rules=PoolRules(lifted=("aim",)))
        assert record.policy == "muster:makespan=0.6"

    play(tmp_path, scenario)
