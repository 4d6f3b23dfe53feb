"""How much slower one device type is than another: by applications seen on both, else by data sheets.

The logarithm of the ratio is the mean over those applications, with the data sheets' ratio as one more:
a single application may be special, several are not.
"""

from collections.abc import Iterable
from math import exp, log

from muster.perf.devices import data_sheet

SPREAD = log(1.25)
"""Standard deviation of the logarithm of a step carried over from another type (`perf.compute`)."""


def slower(device_type: str, than: str, seen: Iterable[float]) -> float:
    """Return s of a step on a type per s on another; `seen`: that ratio of each application on both."""
    if device_type == than:
        return 1.0
    logs = [log(each) for each in seen]
    return exp((_by_sheets(device_type, than) + sum(logs)) / (1 + len(logs)))


def _by_sheets(device_type: str, than: str) -> float:
    """Return the logarithm of the ratio of the rated speeds; 0: nothing says that they differ."""
    here, there = data_sheet(device_type), data_sheet(than)
    return 0.0 if here is None or there is None else log(there.single / here.single)
