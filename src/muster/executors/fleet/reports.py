"""What agents say, on the daemon's clock and within what can be: they are untrusted input."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.executors.transit import TaskReport, offer_of, report_of
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited
from muster.wire.agents.agent_messages import AgentReport
from muster.wire.tasks.codec import BadMessageError

MOST_LABELS = 256


def read_report(message: AgentReport, now: float, earliest: float) -> TaskReport:
    """Return a report, not before `earliest` and not after `now`; `BadMessageError` if it is none."""
    at = min(now, max(earliest, now - message.age))
    report = report_of(message.task, at, message.what, message.report)
    if isinstance(report, TaskExited):
        if report.code is not None and report.code > 255:
            raise BadMessageError(f"exit code {report.code}")
        if report.signal is not None and not 1 <= report.signal <= 64:
            raise BadMessageError(f"signal {report.signal}")
    return report


def read_offer(node: str, record: Mapping[str, Any]) -> NodeOffer:
    """Return what a node offers; its name is the one of its certificate, whatever it says."""
    found = replace(offer_of(dict(record)), name=node)
    first, last = found.ports
    if not 0 < first <= last < 65536:
        raise BadMessageError(f"node {node} offers no range of ports: {first}-{last}")
    if found.millicores < 1 or len(found.labels) > MOST_LABELS:
        raise BadMessageError(f"node {node} offers no core, or more than {MOST_LABELS} labels")
    return found
