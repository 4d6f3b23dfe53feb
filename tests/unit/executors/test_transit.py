"""Orders, reports and offers arrive as they were sent; anything else is refused in words."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.executors.transit import (
    offer_fields,
    offer_of,
    order_fields,
    order_of,
    report_fields,
    report_of,
)
from muster.model.job import Role
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskId, TaskOrder, TaskStarted
from muster.wire.tasks.codec import MOST, BadMessageError

TASK = TaskId(7, 1, Role.WORKER, 0)
ORDER = TaskOrder(TASK, "n0", (0, 1), ("train", "--all"), {"A": "b"}, "/work", "7/1/worker-0.log")
OFFER = NodeOffer("n0", 2000, 2**34, devices=8, device_type="H100", labels={"rack": "r1"})


def over_the_wire(record: dict[str, Any]) -> Any:
    return json.loads(json.dumps(record))


@given(
    st.builds(
        TaskOrder,
        st.just(TASK),
        st.just("n0"),
        st.lists(st.integers(0, 63)).map(tuple),
        st.lists(st.text()).map(tuple),
        st.dictionaries(st.text(), st.text()),
        lease=st.floats(0, 1e9),
        ports=st.lists(st.integers(0, 65535)).map(tuple),
        memory=st.integers(0, MOST),
        millicores=st.integers(0, MOST),
    )
)
def test_an_order_arrives_as_sent(order: TaskOrder) -> None:
    assert order_of(str(order.id), "n0", over_the_wire(order_fields(order))) == order


@pytest.mark.parametrize(
    "report",
    [
        TaskStarted(TASK, 5.0, 77),
        TaskStarted(TASK, 5.0),
        TaskExited(TASK, 5.0, 3),
        TaskExited(TASK, 5.0, None, 9, oom=True, memory=2**30),
        TaskExited(TASK, 5.0, error="no such file", begun=False),
    ],
)
def test_a_report_arrives_as_sent(report: TaskStarted | TaskExited) -> None:
    what, record = report_fields(report)
    assert report_of(str(TASK), 5.0, what, over_the_wire(record)) == report


def test_a_long_reason_is_cut() -> None:
    what, record = report_fields(TaskExited(TASK, 5.0, error="x" * 5000))
    report = report_of(str(TASK), 5.0, what, record)
    assert isinstance(report, TaskExited)
    assert len(report.error) == 1024


def test_an_offer_arrives_as_made() -> None:
    assert offer_of(over_the_wire(offer_fields(OFFER))) == OFFER


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"devices": -1}, "NodeOffer.devices: a count"),
        ({"devices": True}, "NodeOffer.devices: int is needed"),
        ({"ports": [1]}, "NodeOffer.ports: 2 items are needed, not 1"),
        ({"labels": {"a": 1}}, "NodeOffer.labels: str is needed"),
        ({"labels": ["a"]}, "NodeOffer.labels: dict is needed"),
        ({"rack": "r" * 2000}, "NodeOffer.rack: 2000 characters"),
        ({"switches": "4"}, "NodeOffer.switches: a list is needed"),
    ],
)
def test_what_is_no_offer_is_refused(record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadMessageError, match=words):
        offer_of(over_the_wire(offer_fields(OFFER)) | record)


@pytest.mark.parametrize(
    ("task", "record", "words"),
    [
        ("../../etc", {}, "not the id of a task"),
        (str(TASK), {"argv": "rm -rf"}, "TaskOrder.argv: a list is needed"),
        (str(TASK), {"environ": {"A": None}}, "TaskOrder.environ: str is needed"),
        (str(TASK), {"lease": -1}, "TaskOrder.lease: a number from 0"),
        (str(TASK), {"folder": None}, "TaskOrder.folder: str is needed"),
    ],
)
def test_what_is_no_order_is_refused(task: str, record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadMessageError, match=words):
        order_of(task, "n0", over_the_wire(order_fields(replace(ORDER))) | record)


def test_an_unknown_report_is_refused() -> None:
    with pytest.raises(BadMessageError, match="a report 'paused'"):
        report_of(str(TASK), 0.0, "paused", {})
