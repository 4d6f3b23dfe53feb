"""Nodes, pools, the policy, tokens and the daemon itself, from Python."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.client.connection import DaemonConnection, place
from muster.wire.records import NodeRecord, PolicyRecord, PoolRecord, StatusRecord, TokenRecord


class AdminClient:
    """What of a client is not about jobs."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection."""
        raise NotImplementedError

    def nodes(self) -> list[NodeRecord]:
        """All nodes."""
        return msgspec.json.decode(self._get("/v1/nodes"), type=list[NodeRecord])

    def drain(self, node: str) -> NodeRecord:
        """Give a node no new tasks."""
        answer = self.connection.ask("POST", place("nodes", node, "drain"))
        return msgspec.json.decode(answer.content, type=NodeRecord)

    def resume(self, node: str) -> NodeRecord:
        """Use a drained node again."""
        answer = self.connection.ask("POST", place("nodes", node, "resume"))
        return msgspec.json.decode(answer.content, type=NodeRecord)

    def pools(self) -> list[PoolRecord]:
        """All pools."""
        return msgspec.json.decode(self._get("/v1/pools"), type=list[PoolRecord])

    def set_pool(
        self,
        name: str,
        *,
        parent: str | None = None,
        quotas: Mapping[str, Mapping[str, Any]] | None = None,
        shared: bool | None = None,
    ) -> PoolRecord:
        """Make a pool, or change it: what is not named stays. `quotas`: for each device type
        `reservation`, `share` and `limit`."""
        given = {"parent": parent, "quotas": quotas, "shared": shared}
        body = {field: value for field, value in given.items() if value is not None}
        answer = self.connection.ask("PUT", place("pools", name), body=body)
        return msgspec.json.decode(answer.content, type=PoolRecord)

    def remove_pool(self, name: str) -> None:
        """Remove a pool without jobs."""
        self.connection.ask("DELETE", place("pools", name))

    def policy(self) -> PolicyRecord:
        """The policy in force, and those there are."""
        return msgspec.json.decode(self._get("/v1/policy"), type=PolicyRecord)

    def set_policy(self, name: str) -> PolicyRecord:
        """Choose a policy, from the next cycle on."""
        answer = self.connection.ask("PUT", "/v1/policy", body={"name": name})
        return msgspec.json.decode(answer.content, type=PolicyRecord)

    def tokens(self) -> list[TokenRecord]:
        """All tokens, without their secrets; a user's own."""
        return msgspec.json.decode(self._get("/v1/tokens"), type=list[TokenRecord])

    def create_token(self, name: str, user: str, role: str = "user") -> TokenRecord:
        """Make a token; this answer alone has its secret."""
        body = {"name": name, "user": user, "role": role}
        answer = self.connection.ask("POST", "/v1/tokens", body=body)
        return msgspec.json.decode(answer.content, type=TokenRecord)

    def revoke_token(self, name: str) -> None:
        """Make a token invalid at once."""
        self.connection.ask("DELETE", place("tokens", name))

    def status(self) -> StatusRecord:
        """How the daemon is."""
        return msgspec.json.decode(self._get("/v1/status"), type=StatusRecord)

    def metrics(self) -> str:
        """Its figures, as Prometheus reads them."""
        return self._get("/metrics").decode()

    def _get(self, path: str) -> bytes:
        return self.connection.ask("GET", path).content
