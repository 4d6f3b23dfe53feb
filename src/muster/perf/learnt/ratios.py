"""How much slower one device type is than another: by applications seen on both, else by data sheets.

The logarithm of the ratio is the mean over those applications, with the data sheets' ratio, where there
is one, as one more: a single application may be special, several are not.
"""

from collections.abc import Iterable
from math import exp, log

import numpy as np

from muster.perf.devices import data_sheet
from muster.perf.learnt.steps import StepTimes

SPREAD = log(1.25)
"""Standard deviation of the logarithm of a step carried over from another type (`perf.compute`)."""


def slower(device_type: str, than: str, seen: Iterable[float]) -> float:
    """Return s of a step on a type per s on another; `seen`: that ratio of each application on both."""
    if device_type == than:
        return 1.0
    logs = [*_by_sheets(device_type, than), *(log(each) for each in seen)]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def ratio(here: StepTimes, there: StepTimes) -> float:
    """Return s of an application's step on a type per s on another, where either was measured."""
    places = [*here.places(), *there.places()]
    logs = np.log(here.seconds(places, 1)) - np.log(there.seconds(places, 1))
    return exp(float(logs.mean()))


def _by_sheets(device_type: str, than: str) -> tuple[float, ...]:
    """Return the logarithm of the ratio of the rated speeds; nothing where a data sheet is missing."""
    here, there = data_sheet(device_type), data_sheet(than)
    return () if here is None or there is None else (log(there.single / here.single),)
