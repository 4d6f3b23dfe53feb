"""What stands before the daemon does: its store is claimed, its door is open."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.api.door.reception import Reception
from muster.app.door import Door
from muster.app.options import Listening, UpOptions
from muster.store.store import Store


@dataclass(frozen=True, slots=True)
class Entrance:
    """The way to a daemon."""

    options: UpOptions
    store: Store
    door: Door
    reception: Reception
    stop: asyncio.Event
    """Set when the daemon shall end."""
    serving: "asyncio.Task[None]"
    """Ends after `stop`, with the requests in progress."""
    token_file: Path | None
    """Where the user's own clients find their token; None: none is needed."""
    announce: Callable[[Listening], None]
    """Called once the daemon stands."""
