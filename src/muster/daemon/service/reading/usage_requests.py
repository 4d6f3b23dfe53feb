"""What was used: sums of the accounts by what jobs have in common."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from muster.daemon.account.meter import HOUR
from muster.daemon.service.protocol import Caller, RefusedError
from muster.daemon.service.requests import Requests
from muster.files.errors import one_of
from muster.store.usage import SUMS
from muster.wire.api.use_records import UsageRecord, UsageReport

COLUMNS = {
    "user": "user",
    "pool": "pool",
    "application": "application",
    "type": "device_type",
    "job": "number",
}
LABEL = "label:"
"""Before the key of a label."""
UNLABELLED = "-"

Sums = dict[str, float]


class UsageRequests(Requests):
    """Requests about what jobs held; documented in the protocol."""

    async def usage(
        self, caller: Caller, since: float, until: float | None = None, by: Sequence[str] = ("user",)
    ) -> UsageReport:
        for name in by:
            if name not in COLUMNS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
                raise RefusedError(one_of(name, "group", [*COLUMNS, f"{LABEL}KEY"]))
        now = self.now()
        first, last = int(since // HOUR), ceil((now if until is None else until) / HOUR)
        columns = dict.fromkeys(COLUMNS.get(name, "labels") for name in by)
        rows = await self._read(self._store.usage, first, last, tuple(columns), self._visible(caller))
        groups = _grouped(rows, by)
        records = [_record(dict(zip(by, key, strict=True)), sums) for key, sums in groups.items()]
        records.sort(key=lambda each: (-each.device_hours, tuple(each.group.values())))
        (whole,) = await self._read(self._store.usage, first, last, (), self._visible(caller))
        return UsageReport(
            first * HOUR, min(now, last * HOUR), tuple(by), tuple(records), _record({}, whole)
        )


def _grouped(rows: Iterable[Mapping[str, Any]], by: Sequence[str]) -> dict[tuple[str, ...], Sums]:
    """Sum rows by what is asked for; labels of one text may give several values."""
    found: dict[tuple[str, ...], Sums] = defaultdict(lambda: dict.fromkeys((*SUMS, "jobs"), 0.0))
    for row in rows:
        sums = found[tuple(_value(row, name) for name in by)]
        for name in sums:
            sums[name] += row[name]
    return found


def _value(row: Mapping[str, Any], name: str) -> str:
    if name in COLUMNS:
        return str(row[COLUMNS[name]])
    labels = json.loads(row["labels"] or "{}")
    return str(labels.get(name.removeprefix(LABEL), UNLABELLED))


def _record(group: dict[str, str], sums: Mapping[str, Any]) -> UsageRecord:
    hours = {name: round(sums[name] / HOUR, 6) for name in SUMS}
    busy = sums["busy"] / sums["watched"] if sums["watched"] else None
    return UsageRecord(group, hours["held"], hours["idle"], hours["lost"], int(sums["jobs"]), busy)
