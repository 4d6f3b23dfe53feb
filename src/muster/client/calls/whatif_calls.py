"""What a client asks about changes that nobody makes yet."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.client.connecting.connection import DaemonConnection, place
from muster.client.errors import ClientError
from muster.wire.api.whatif_records import DefragRecord, WhatIfRecord, WhatIfReport

LOOK = 0.3
"""s between two looks at how far an answer is."""


class WhatIfCalls:
    """The part of a client that is about changes."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection to the daemon."""
        raise NotImplementedError

    def asked_about(self, job: Mapping[str, Any] | str | Path) -> dict[str, Any]:
        """Return a job as it would be submitted."""
        raise NotImplementedError

    def what_if(
        self,
        *,
        policy: str | None = None,
        pools: Mapping[str, Mapping[str, Any]] | None = None,
        add: Sequence[Mapping[str, Any]] = (),
        drain: Sequence[Mapping[str, Any]] = (),
        submit: Sequence[Mapping[str, Any]] = (),
        priorities: Mapping[str, int] | None = None,
        worlds: int = 16,
        seed: int = 0,
        told: Callable[[int, int], None] | None = None,
    ) -> WhatIfReport:
        """Return what changes would do to the live jobs; nothing is changed.

        `pools`: by name, as `set_pool` takes them. `add`: `{"names": ["gpu17"], "like": "dgx1"}`;
        `drain`: `{"names": ["gpu3"]}`; `submit`: `{"job": ...}` with a mapping or the path of a job
        file; each with `at`, in s since 1970, for later. `priorities`: by number or name of a job.
        `told`: called with the worlds played so far, and of how many.
        """
        jobs = [{**each, "job": self.asked_about(each["job"])} for each in submit]
        body: dict[str, Any] = {
            "policy": policy,
            "pools": {name: dict(each) for name, each in (pools or {}).items()},
            "add": [dict(each) for each in add],
            "drain": [dict(each) for each in drain],
            "submit": jobs,
            "priorities": dict(priorities or {}),
            "worlds": worlds,
            "seed": seed,
        }
        found = self.connection.call(WhatIfRecord, "POST", "/v1/what-if", body=body)
        while not found.over:
            if told is not None:
                told(found.done, found.of)
            time.sleep(LOOK)
            found = self.connection.call(WhatIfRecord, "GET", place("what-if", found.id))
        if found.report is None:
            raise ClientError(422, "Unprocessable", found.problem)
        return found.report

    def defrag(self) -> list[DefragRecord]:
        """List the waiting jobs that moves of others would make room for; nothing is moved."""
        return self.connection.call(list[DefragRecord], "GET", "/v1/defrag")

    def make_room(self, which: str | int) -> DefragRecord:
        """Move what makes room for a waiting job, and keep it for that job."""
        return self.connection.call(DefragRecord, "POST", place("defrag", which))
