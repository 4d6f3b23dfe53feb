"""Nodes, pools, the policy, tokens and the daemon itself, from Python."""

from collections.abc import Mapping
from typing import Any

from muster.client.connection import DaemonConnection, place
from muster.wire.records import NodeRecord, PolicyRecord, PoolRecord, StatusRecord, TokenRecord


class AdminClient:
    """The part of a client that is not about jobs."""

    @property
    def connection(self) -> DaemonConnection:
        raise NotImplementedError

    def nodes(self) -> list[NodeRecord]:
        return self.connection.call(list[NodeRecord], "GET", "/v1/nodes")

    def drain(self, node: str) -> NodeRecord:
        """Place no new tasks on a node."""
        return self.connection.call(NodeRecord, "POST", place("nodes", node, "drain"))

    def resume(self, node: str) -> NodeRecord:
        """Use a drained node again."""
        return self.connection.call(NodeRecord, "POST", place("nodes", node, "resume"))

    def pools(self) -> list[PoolRecord]:
        return self.connection.call(list[PoolRecord], "GET", "/v1/pools")

    def set_pool(
        self,
        name: str,
        *,
        parent: str | None = None,
        quotas: Mapping[str, Mapping[str, Any]] | None = None,
        shared: bool | None = None,
    ) -> PoolRecord:
        """Create or change a pool; what is not given stays unchanged.

        `quotas`: `reservation`, `share` and `limit` by device type.
        """
        given = {"parent": parent, "quotas": quotas, "shared": shared}
        body = {field: value for field, value in given.items() if value is not None}
        return self.connection.call(PoolRecord, "PUT", place("pools", name), body=body)

    def remove_pool(self, name: str) -> None:
        """Remove a pool without jobs."""
        self.connection.ask("DELETE", place("pools", name))

    def policy(self) -> PolicyRecord:
        """Return the active policy and the names of all."""
        return self.connection.call(PolicyRecord, "GET", "/v1/policy")

    def set_policy(self, name: str) -> PolicyRecord:
        """Change the policy, from the next cycle on."""
        return self.connection.call(PolicyRecord, "PUT", "/v1/policy", body={"name": name})

    def tokens(self) -> list[TokenRecord]:
        """List tokens without their secrets: all for an administrator, otherwise the caller's."""
        return self.connection.call(list[TokenRecord], "GET", "/v1/tokens")

    def create_token(self, name: str, user: str, role: str = "user") -> TokenRecord:
        """Create a token; only this answer has its secret."""
        body = {"name": name, "user": user, "role": role}
        return self.connection.call(TokenRecord, "POST", "/v1/tokens", body=body)

    def revoke_token(self, name: str) -> None:
        """Revoke a token at once."""
        self.connection.ask("DELETE", place("tokens", name))

    def status(self) -> StatusRecord:
        return self.connection.call(StatusRecord, "GET", "/v1/status")

    def metrics(self) -> str:
        """Return the daemon's metrics in Prometheus' text format."""
        return self.connection.ask("GET", "/metrics").text

    def snapshot(self) -> bytes:
        """Return what the scheduler decides on now, as a JSON file for `muster play`."""
        return self.connection.ask("GET", "/v1/snapshot").content
