"""Values as bytes, between the daemon and its own planners, which it has started itself.

Frozen dataclasses with slots pickle themselves field by field in Python. The classes of which there are
thousands in a message are given as a call of the class instead, which is three times as fast.
"""

import copyreg
import io
import pickle
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from muster.core.planners.delta import ViewDelta
from muster.foresight.kept import KeptForecast
from muster.foresight.play import JobForecast
from muster.foresight.quantiles import TimeInterval
from muster.model.cluster import Node
from muster.model.decision import Decision, Promise
from muster.model.job import Job, Need, RoleSpec
from muster.model.outlook import Outlook
from muster.model.placement import Placement, Slot
from muster.model.reason import Holder, Quantity, Reason, RequestChange, Shortfall
from muster.model.view import JobState

_MANY = (
    Decision,
    Holder,
    Job,
    JobForecast,
    JobState,
    KeptForecast,
    Need,
    Node,
    Outlook,
    Promise,
    Quantity,
    Reason,
    RequestChange,
    RoleSpec,
    Shortfall,
    Slot,
    TimeInterval,
    ViewDelta,
)


def _as_call(kind: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    values = attrgetter(*(each.name for each in fields(kind) if each.init))
    return lambda value: (kind, values(value))


_TABLE: dict[type, Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    **{kind: _as_call(kind) for kind in _MANY},
    Placement: lambda value: (Placement, (value.slots,)),
}


def dumps(value: object) -> bytes:
    """Return the value as bytes."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _TABLE
    pickler.dump(value)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Return the value of these bytes."""
    return pickle.loads(data)
