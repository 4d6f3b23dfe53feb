"""Secrets are made, listed, revoked and replaced by administrators, and the audit log says so."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
)
from muster.executors.fleet.authority import new_request
from muster.executors.fleet.identities import Identities
from muster.executors.fleet.join_error import JoinError
from muster.wire.agents.join_token import JoinToken
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, until


def play(
    tmp_path: Path,
    scenario: Callable[[RunningDaemon, Identities], Awaitable[None]],
    machine: Machine | None = None,
) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path, machine) as made:
            identities = Identities(made.daemon.store, addresses=["10.0.0.1:7433"])
            made.service.identities = identities
            await scenario(made, identities)

    asyncio.run(played())


def join(identities: Identities, token: str | None, node: str) -> None:
    identities.join(JoinToken.parse(token or "").secret, node, new_request(node)[1], "")


def test_a_join_token_comes_with_the_command_for_the_other_machine(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        made_token = await made.service.invite(ADMIN, "gpu1", 1, 60.0)
        assert made_token.command == f"muster agent --join {made_token.token}"
        assert JoinToken.parse(made_token.token or "").addresses == ("10.0.0.1:7433",)
        join(identities, made_token.token, "gpu1")
        (listed,) = await made.service.invitations(ADMIN)
        assert (listed.used, listed.used_by, listed.token) == (1, "gpu1", None)
        assert await made.service.invitations(ANN) == []

    play(tmp_path, scenario)


def test_a_join_token_is_revoked_like_any_other(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        token = await made.service.invite(ADMIN, "")
        with pytest.raises(NotFoundError):
            await made.service.revoke_token(ANN, token.name)
        await made.service.revoke_token(ADMIN, token.name)
        with pytest.raises(JoinError, match="unknown join token"):
            join(identities, token.token, "gpu1")

    play(tmp_path, scenario)


def test_a_revoked_node_is_refused_and_its_connection_ended(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        ended: list[str] = []
        identities.revoked.append(ended.append)
        join(identities, (await made.service.invite(ADMIN, "")).token, "gpu1")
        assert (await made.service.revoke_node(ADMIN, "gpu1")).revoked is not None
        assert ended == ["gpu1"]
        with pytest.raises(NotFoundError, match="no agent has joined as 'gpu2'"):
            await made.service.revoke_node(ADMIN, "gpu2")
        acts = [(each.act, each.target) for each in await made.service.acts(ADMIN)]
        assert ("revoke node", "gpu1") in acts

    play(tmp_path, scenario)


@pytest.mark.parametrize("act", ["invite", "revoke_node", "rotate"])
def test_only_administrators_decide_who_is_a_node(tmp_path: Path, act: str) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        with pytest.raises(ForbiddenError):
            await getattr(made.service, act)(ANN, "authority")

    play(tmp_path, scenario)


def test_a_daemon_without_agents_says_how_to_have_some(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        made.service.identities = None
        assert await made.service.invitations(ADMIN) == []
        with pytest.raises(RefusedError, match="start it with --engine machines"):
            await made.service.invite(ADMIN, "")

    play(tmp_path, scenario)


def test_a_users_token_gets_another_secret_and_loses_the_old_one(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        service = made.service
        old = await service.create_token(ADMIN, "laptop", "ann", "user")
        with pytest.raises(NotFoundError):
            await service.rotate_token(BOB, "laptop")
        new = await service.rotate_token(ANN, "laptop")
        assert old.secret and new.secret
        assert await service.identify(old.secret) is None
        assert await service.identify(new.secret) == Caller("ann")
        assert "rotate token" in [each.act for each in await service.acts(ADMIN)]

    play(tmp_path, scenario)


def test_live_jobs_keep_their_tokens_when_the_jobs_secret_is_replaced(tmp_path: Path) -> None:
    machine = Machine()

    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        secrets = made.service.job_secrets
        assert secrets is not None
        await made.service.submit(ANN, program("a"))
        await until(made, lambda: bool(machine.processes))
        first = next(iter(machine.processes.values())).order.environ["MUSTER_TOKEN"]
        done = await made.service.rotate(ADMIN, "jobs")
        assert done.waiting == ("1 (ann/a)",)
        state = made.daemon.state
        assert secrets.token(state.view.jobs[1], state.gangs[1]) == first
        # The next daemon knows both.
        assert made.daemon.store.setting("secret") == secrets.dump()

    play(tmp_path, scenario, machine)


def test_an_authority_is_replaced_once_at_a_time(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, identities: Identities) -> None:
        join(identities, (await made.service.invite(ADMIN, "")).token, "gpu1")
        before = identities.fingerprint
        assert (await made.service.rotate(ADMIN, "authority")).waiting == ("gpu1",)
        assert identities.fingerprint != before
        with pytest.raises(ConflictError, match="the last rotation is not over: gpu1"):
            await made.service.rotate(ADMIN, "authority")
        assert (await made.service.rotate(ADMIN, "authority", at_once=True)).waiting == ()

    play(tmp_path, scenario)
