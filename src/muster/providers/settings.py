"""What a provider is opened with.

An engine is a package `muster.providers.NAME` whose module `provider` has `open_provider(settings)`. It
returns a `ports.Provider`, or raises `InputError` in one line: what is missing, and what to do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.wire.agents.join_token import JoinToken


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What `muster up --engine` says to a provider."""

    folder: Path
    """Its own, for this engine alone, kept over restarts of the daemon."""
    invite: Callable[[str | None, int, float], JoinToken]
    """Makes a join token for a node (None: any), a number of uses and s that it is good for. From any
    thread; nodes of one engine may join again and again."""
    connected: Callable[[], frozenset[str]]
    """The nodes whose agents are connected now. From any thread."""
    address: str | None = None
    """Of a running engine; None: found by itself."""
    partition: str | None = None
    """Of the engine's nodes, as the engine calls it; None: its default."""
    nodes: str | None = None
    """How many to hold, as "2..16"; None: as the engine has or the demand says."""
    time: float | None = None
    """s for which to hold a node at most; None: as the engine lets."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Options of the engine's own, from `--engine-option NAME=VALUE`."""
