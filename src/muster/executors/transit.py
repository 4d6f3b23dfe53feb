"""Orders, reports and offers as fields of messages between daemon and agents, checked by the reader."""

from dataclasses import fields
from typing import Any

from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskId, TaskOrder, TaskStarted
from muster.wire.bounds import AtMost
from muster.wire.tasks.codec import BadMessageError, reader

TaskReport = TaskStarted | TaskExited

STARTED, EXITED = "started", "exited"
"""What a report of a task says."""

_ORDER = ("id", "node")
_REPORT = ("task", "at")
_SHORT = AtMost(1024)
"""Characters of a text of an agent: names, labels, reasons."""

_read_order = reader(TaskOrder, _ORDER)
_read_started = reader(TaskStarted, _REPORT, _SHORT)
_read_exited = reader(TaskExited, _REPORT, _SHORT)
_read_offer = reader(NodeOffer, (), _SHORT)


def order_fields(order: TaskOrder) -> dict[str, Any]:
    """Return an order's fields for `RunTask.order`."""
    return _fields(order, _ORDER)


def order_of(task: str, node: str, record: dict[str, Any]) -> TaskOrder:
    """Read an order; `BadMessageError` if it is none."""
    return TaskOrder(task_of(task), node, **_read_order(record))


def report_fields(report: TaskReport) -> tuple[str, dict[str, Any]]:
    """Return what a report says and its fields, for `AgentReport`."""
    found = _fields(report, _REPORT)
    if isinstance(report, TaskStarted):
        return STARTED, found
    return EXITED, found | {"error": report.error[: _SHORT.count]}


def report_of(task: str, at: float, what: str, record: dict[str, Any]) -> TaskReport:
    """Read a report; `BadMessageError` if it is none."""
    if what == STARTED:
        return TaskStarted(task_of(task), at, **_read_started(record))
    if what == EXITED:
        return TaskExited(task_of(task), at, **_read_exited(record))
    raise BadMessageError(f"a report {what!r:.80} of a task")


def offer_fields(offer: NodeOffer) -> dict[str, Any]:
    """Return an offer's fields for `AgentHello.offer`."""
    return _fields(offer, ())


def offer_of(record: dict[str, Any]) -> NodeOffer:
    """Read an offer; `BadMessageError` if it is none."""
    return NodeOffer(**_read_offer(record))


def task_of(text: str) -> TaskId:
    """Read the id of a task; `BadMessageError` if it is none."""
    try:
        return TaskId.parse(text)
    except ValueError as problem:
        raise BadMessageError(str(problem)) from None


def _fields(value: TaskOrder | TaskReport | NodeOffer, without: tuple[str, ...]) -> dict[str, Any]:
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: each for name, each in found.items() if name not in without}
