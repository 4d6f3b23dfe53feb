"""Nodes, pools, the policy and tokens."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from muster.api.bodies import (
    DrainBody,
    InvitationBody,
    LimitBody,
    PolicyBody,
    PoolBody,
    RotationBody,
    TokenBody,
)
from muster.api.parts import Named, Parts, Who, answers, reply
from muster.wire.api.map_records import ClusterMap
from muster.wire.api.records import (
    ActRecord,
    IdentityRecord,
    InvitationRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    RotationRecord,
    TokenRecord,
)
from muster.wire.api.use_records import LimitRecord

Limited = Annotated[
    str,
    Path(
        description="User; `*`: everybody.",
        pattern=r"^(\*|[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62})$",
        examples=["ada"],
    ),
]


def node_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="List nodes", responses=answers(list[NodeRecord], "All nodes."))
    async def nodes(who: Who) -> Response:
        """With their devices and the jobs on them."""
        return reply(await service.nodes(who))

    @router.get("/{name}", summary="Show a node", responses=answers(NodeRecord, "The node."))
    async def node(who: Who, name: Named) -> Response:
        """With its tasks, what its agent offers, and how it is."""
        return reply(await service.node(who, name))

    @router.post("/{name}/drain", summary="Drain a node", responses=answers(NodeRecord, "The node."))
    async def drain(who: Who, name: Named, body: DrainBody | None = None) -> Response:
        """It gets no new tasks; elastic jobs move off it, others finish. With `within`, what is still
        there is checkpointed and moved in time. Administrators only."""
        return reply(await service.drain(who, name, body.within if body else None))

    @router.post(
        "/{name}/resume", summary="Use a drained node again", responses=answers(NodeRecord, "The node.")
    )
    async def resume(who: Who, name: Named) -> Response:
        """It gets tasks again. Administrators only."""
        return reply(await service.resume(who, name))

    @router.delete("/{name}", status_code=204, summary="Remove a lost node")
    async def remove_node(who: Who, name: Named) -> Response:
        """It will not come back. Administrators only."""
        await service.remove_node(who, name)
        return Response(status_code=204)

    @router.post(
        "/{name}/revoke",
        summary="Revoke a node's certificate",
        responses=answers(IdentityRecord, "The certificate."),
    )
    async def revoke_node(who: Who, name: Named) -> Response:
        """Its agent is refused from now on, and its tasks are lost. Administrators only."""
        return reply(await service.revoke_node(who, name))


def map_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="Show what every device does", responses=answers(ClusterMap, "The map."))
    async def cluster_map(who: Who) -> Response:
        """The job on each device of each node, and the one it is withheld for: for a picture of the
        cluster."""
        return reply(await service.map(who))


def pool_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="List pools", responses=answers(list[PoolRecord], "All pools."))
    async def pools(who: Who) -> Response:
        """With their quotas, entitlements and use."""
        return reply(await service.pools(who))

    @router.put(
        "/{name}", summary="Create or change a pool", responses=answers(PoolRecord, "The pool.")
    )
    async def set_pool(who: Who, name: Named, body: PoolBody) -> Response:
        """What is not given stays unchanged. Administrators only."""
        quotas = {device_type: quota.quota() for device_type, quota in body.quotas.items()}
        rules = body.rules()
        return reply(await service.set_pool(who, name, body.parent, quotas, body.shared, rules))

    @router.delete("/{name}", summary="Remove a pool", status_code=204)
    async def remove_pool(who: Who, name: Named) -> Response:
        """Conflicts if the pool has jobs. Administrators only."""
        await service.remove_pool(who, name)
        return Response(status_code=204)


def limit_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "",
        summary="List the limits of users",
        responses=answers(list[LimitRecord], "Everybody's, then users'."),
    )
    async def limits(who: Who) -> Response:
        """All for an administrator, otherwise the caller's own."""
        return reply(await service.limits(who))

    @router.put(
        "/{user}",
        summary="Change the limits of a user",
        responses=answers(LimitRecord, "The limits."),
    )
    async def set_limits(who: Who, user: Limited, body: LimitBody) -> Response:
        """What is not given stays unchanged. `*`: of everybody without their own. Administrators
        only."""
        return reply(await service.set_limits(who, user, body.model_dump()))

    @router.delete(
        "/{user}",
        summary="Give a user everybody's limits again",
        responses=answers(LimitRecord, "The limits."),
    )
    async def reset_limits(who: Who, user: Limited) -> Response:
        """Of `*`: the defaults again. Administrators only."""
        return reply(await service.set_limits(who, user, None))


def audit_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "", summary="Read the audit log", responses=answers(list[ActRecord], "The last, oldest first.")
    )
    async def acts(
        who: Who,
        user: Annotated[
            str | None, Query(max_length=63, description="Only what this user did.")
        ] = None,
        since: Annotated[float, Query(ge=0, description="Only from this time on, in s.")] = 0.0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Most entries.")] = 100,
    ) -> Response:
        """Who did what, when and from where. Administrators only."""
        return reply(await service.acts(who, user, since, limit))


def policy_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="Show the policy", responses=answers(PolicyRecord, "The policy."))
    async def policy(who: Who) -> Response:
        """The active policy and the names of all."""
        return reply(await service.policy(who))

    @router.put("", summary="Change the policy", responses=answers(PolicyRecord, "The policy."))
    async def set_policy(who: Who, body: PolicyBody) -> Response:
        """Takes effect with the next cycle. Administrators only."""
        return reply(await service.set_policy(who, body.name))


def agent_token_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "", summary="List join tokens", responses=answers(list[InvitationRecord], "Without secrets.")
    )
    async def invitations(who: Who) -> Response:
        """Tokens with which agents join; none unless the caller is an administrator."""
        return reply(await service.invitations(who))

    @router.post(
        "",
        summary="Create a join token",
        status_code=201,
        responses=answers(InvitationRecord, "The token; only this answer has its text.", 201),
    )
    async def invite(who: Who, body: InvitationBody | None = None) -> Response:
        """For `muster agent --join` on another machine. Administrators only."""
        asked = body or InvitationBody()
        record = await service.invite(who, asked.node or "", asked.uses, asked.seconds)
        return reply(record, 201, {"Cache-Control": "no-store"})


def rotation_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.post(
        "/{what}",
        summary="Replace a secret",
        responses=answers(RotationRecord, "Who uses the old one."),
    )
    async def rotate(
        who: Who, what: Literal["jobs", "authority"], body: RotationBody | None = None
    ) -> Response:
        """`jobs`: the secret behind the tokens of jobs; live ones keep theirs. `authority`: the
        certificate authority; agents renew by themselves. Administrators only."""
        return reply(await service.rotate(who, what, body.at_once if body else False))


def token_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="List tokens", responses=answers(list[TokenRecord], "Without secrets."))
    async def tokens(who: Who) -> Response:
        """All for an administrator, otherwise the caller's own."""
        return reply(await service.tokens(who))

    @router.post(
        "",
        summary="Create a token",
        status_code=201,
        responses=answers(TokenRecord, "The token; only this answer has its secret.", 201),
    )
    async def create_token(who: Who, body: TokenBody) -> Response:
        """Administrators only."""
        record = await service.create_token(who, body.name, body.user or body.name, body.role)
        return reply(record, 201, {"Cache-Control": "no-store"})

    @router.delete("/{name}", summary="Revoke a token", status_code=204)
    async def revoke_token(who: Who, name: Named) -> Response:
        """It is rejected from now on, and its streams end within a second. Join tokens too."""
        await service.revoke_token(who, name)
        parts.tokens.forget()
        return Response(status_code=204)

    @router.post(
        "/{name}/rotate",
        summary="Replace a token's secret",
        responses=answers(TokenRecord, "The token; only this answer has its secret."),
    )
    async def rotate_token(who: Who, name: Named) -> Response:
        """The old secret is rejected from now on."""
        record = await service.rotate_token(who, name)
        parts.tokens.forget()
        return reply(record, headers={"Cache-Control": "no-store"})
