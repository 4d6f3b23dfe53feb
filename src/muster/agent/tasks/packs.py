"""Packed folders on a node: fetched for the first order that ships one, kept for those that follow."""

import base64
import binascii
import logging

from muster.executors.packs import BadPackError, PackFolder
from muster.model.task import TaskId, TaskOrder
from muster.wire.agents.agent_messages import NeedPack, PackPart

LIMIT = 4_000_000_000
"""Bytes of packs on a node: the least recently used ones make room."""

_log = logging.getLogger("muster.agent")


class PackCache:
    """The packs of a node, and the orders that wait for one. An order whose pack cannot be had is
    started all the same: its task fails, and says why."""

    def __init__(self, packs: PackFolder, limit: int = LIMIT) -> None:
        self._packs, self._limit = packs, limit
        self._waiting: dict[TaskId, TaskOrder] = {}
        self._asked: dict[str, int] = {}
        """Of each pack that is under way, the offset last asked for."""

    def holds(self, order: TaskOrder) -> bool:
        """Whether an order must wait for its pack; `take` returns it once that is here."""
        try:
            if not order.ship or self._packs.has(order.ship):
                if order.ship:
                    self._packs.touch(order.ship)
                return False
        except BadPackError:
            return False
        self._waiting[order.id] = order
        return True

    def release(self, task: TaskId) -> TaskOrder | None:
        """Return an order that waits, and forget it."""
        return self._waiting.pop(task, None)

    def connected(self) -> None:
        """A connection has begun: what was asked for on an earlier one will not come."""
        self._asked.clear()

    def unasked(self) -> list[NeedPack]:
        """Return requests for the parts that are missing and not under way."""
        needs = []
        for digest in dict.fromkeys(order.ship for order in self._waiting.values()):
            offset = self._packs.size(digest)
            if self._asked.get(digest) != offset:
                self._asked[digest] = offset
                needs.append(NeedPack(digest, offset))
        return needs

    def take(self, part: PackPart) -> list[TaskOrder]:
        """Keep a part; return the orders that need not wait any more."""
        if part.digest not in self._asked:
            return []
        try:
            if part.problem:
                raise BadPackError(part.problem)
            self._packs.add(part.digest, part.offset, base64.b64decode(part.data, validate=True))
            if not part.last:
                return []
            self._packs.finish(part.digest)
        except (BadPackError, OSError, binascii.Error) as problem:
            _log.warning("a shipped folder cannot be had: %s", problem)
        del self._asked[part.digest]
        ready = [order for order in self._waiting.values() if order.ship == part.digest]
        for order in ready:
            del self._waiting[order.id]
        self._make_room({part.digest, *(order.ship for order in self._waiting.values())})
        return ready

    def _make_room(self, needed: set[str]) -> None:
        self._packs.prune(needed, float("-inf"), self._limit)
