"""Hands packed folders to agents, part by part as they ask."""

from base64 import b64encode

from muster.executors.packs import BadPackError, PackFolder
from muster.wire.agents.agent_messages import NeedPack, PackPart

PART = 256 * 1024
"""Bytes of a part: few enough that beats are not late behind it."""


class PackSource:
    """The daemon's packs, for its agents."""

    def __init__(self, packs: PackFolder) -> None:
        self._packs = packs

    def part(self, asked: NeedPack, allowed: bool) -> PackPart:
        """Return the part that an agent asks for; `allowed`: whether it has an order for it."""
        try:
            if not allowed:
                raise BadPackError("no order of the node ships it")
            with self._packs.path(asked.digest).open("rb") as file:
                size = file.seek(0, 2)
                file.seek(min(max(0, asked.offset), size))
                data = file.read(PART)
            last = asked.offset + len(data) >= size
            return PackPart(asked.digest, asked.offset, b64encode(data).decode("ascii"), last)
        except (BadPackError, OSError) as problem:
            why = getattr(problem, "strerror", None) or str(problem)
            said = f"{asked.digest[:80]}: {why}"[:1000]
            return PackPart(asked.digest, asked.offset, "", problem=said)
