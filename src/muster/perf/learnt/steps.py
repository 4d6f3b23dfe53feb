"""How long a step takes on other devices: the fitted form of one application on one device type.

What jobs report is averaged for each setting, and the form (`speed.fitted`) is fitted again only when
there is reason to: few settings are known, or a new one is not where it was predicted. Asked before the
first report, the form answers with what is believed of any job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from muster.perf.estimate import Unknown
from muster.perf.learnt.batches import Split
from muster.perf.speed.fitted import NORMAL_80, PRIOR, FittedSpeed, PlacedSample, fit_placed
from muster.perf.speed.step_form import Arrays, Reference, StepSetting, Times, times

Array = NDArray[np.float64]

FEW = 8
"""Settings up to which each new one is worth another fit: as many as the form needs."""
MOST = 24
"""Settings kept: more than twice the form's unknowns. A fit takes milliseconds then."""
AVERAGED = 8
"""Newest reports of a setting that are averaged: their jitter is then a third of one's."""
SURPRISE = 0.15
"""Error of the logarithm of a step from which on the form is fitted again: the usual difference of
one placement from another that the form cannot know (`speed.fitted.Spread`)."""
LEAST_COMPUTING = 0.02
"""Part of a step that is computing at the very least: where synchronising is measured with an error
of its own it may come out longer than the step."""


@dataclass(frozen=True, slots=True)
class PlacedSplit:
    """A setting to be asked for: devices on each node, and how the batch is dealt."""

    shape: tuple[int, ...]
    split: Split

    @property
    def setting(self) -> StepSetting:
        """As the form has it; the order of the nodes does not matter there."""
        return StepSetting(tuple(sorted(self.shape, reverse=True)), self.split.at_once)


class StepTimes:
    """What was reported, and the form fitted to it."""

    def __init__(self) -> None:
        self._reports: dict[StepSetting, list[PlacedSample]] = {}
        self._fit: FittedSpeed | None = None
        self._stale = False
        self._version = 0
        """Counts fits."""
        self.widest = 0
        """Most devices that a report came from."""

    def __bool__(self) -> bool:
        return bool(self._reports)

    def add(self, place: PlacedSplit, seconds: float, sync: float | None) -> None:
        """A step there took so long, and so much of it was synchronising."""
        setting = place.setting
        self.widest = max(self.widest, setting.devices)
        sample = _one_pass(place, seconds, sync)
        if setting not in self._reports:
            self._stale = self._stale or self._surprised(sample)
            self._make_room()
        self._reports[setting] = [*self._reports.pop(setting, []), sample][-AVERAGED:]

    def known(self) -> tuple[int, int]:
        """Changes with what is known, everything reported taken in: the fit, and how wide it goes."""
        self._refresh()
        return self._version, self.widest

    def _refresh(self) -> None:
        if self._stale:
            fit = fit_placed([_mean(reports) for reports in self._reports.values()])
            self._fit = None if isinstance(fit, Unknown) else fit
            self._stale = False
            self._version += 1

    def seconds(self, places: Sequence[PlacedSplit], prior_batch: int) -> Array:
        """s of a step at each place.

        The form's even where a step was measured: beside what was never tried, the truth about one
        number of devices would be a dip, at which policies that give one at a time stop. Before any
        report in units of a step of `prior_batch` samples on one device.
        """
        self._refresh()
        settings = [place.setting for place in places]
        if self._fit is None:
            at = _form(PRIOR.middles, settings, Reference(1.0, prior_batch))
        else:
            at = _fitted(self._fit, settings)
        further = np.array([place.split.further for place in places])
        return np.asarray(np.exp(at.step) + further * np.exp(at.compute), dtype=np.float64)

    def spread(self, place: PlacedSplit) -> float:
        """Standard deviation of the logarithm of a step there."""
        self._refresh()
        if self._fit is None:
            return UNSEEN
        estimate = self._fit.seconds(place.setting)
        return log(estimate.high / estimate.mean) / NORMAL_80

    def _surprised(self, sample: PlacedSample) -> bool:
        if len(self._reports) < FEW or self._fit is None:
            return True
        at = _fitted(self._fit, [sample.setting])
        return abs(log(sample.seconds) - float(at.step[0])) > SURPRISE

    def _make_room(self) -> None:
        """Let go of the older of the two settings that lie closest: it tells least."""
        if len(self._reports) < MOST:
            return
        known = list(self._reports)
        where = np.array([setting.coordinates for setting in known])
        apart = np.linalg.norm(where[:, None] - where[None, :], axis=2)
        apart[np.tril_indices(len(known))] = np.inf
        del self._reports[known[int(apart.argmin()) // len(known)]]


UNSEEN = log(2.0)
"""Standard deviation of the logarithm of a step of which nothing was reported: a factor of two."""


def _one_pass(place: PlacedSplit, seconds: float, sync: float | None) -> PlacedSample:
    """A step without its further passes, each of which takes as long as computing does in the last."""
    further = place.split.further
    exchanged = None if sync is None else min(sync, (1 - LEAST_COMPUTING) * seconds)
    # T = t + s (t - sync)  =>  t = (T + s sync) / (s + 1)
    last = (seconds + further * (exchanged or 0.0)) / (further + 1)
    if exchanged is not None:
        exchanged = min(exchanged, (1 - LEAST_COMPUTING) * last)
    return PlacedSample(place.setting, last, exchanged)


def _mean(reports: Sequence[PlacedSample]) -> PlacedSample:
    """One sample for all reports of a setting: means of logarithms of the step and of computing."""
    seconds = exp(sum(log(each.seconds) for each in reports) / len(reports))
    if any(each.sync is None for each in reports):
        return PlacedSample(reports[0].setting, seconds)
    computing = exp(sum(log(each.computing) for each in reports) / len(reports))
    return PlacedSample(reports[0].setting, seconds, max(seconds - computing, 0.0))


def _fitted(fit: FittedSpeed, settings: Sequence[StepSetting]) -> Times:
    """The most probable times, without their intervals: those cost as much again for each setting."""
    prior, columns = fit.columns.prior, fit.columns
    factors = np.zeros((2, len(settings)))
    for i, setting in enumerate(settings):
        batch = columns.factors.get(("batch", setting.batch))
        if batch is not None:
            factors[0, i] = columns.spread.batch * fit.found[batch]
        placement = columns.factors.get(("placement", setting.shape))
        if placement is not None:
            factors[1, i] = columns.spread.placement * fit.found[placement]
    unknowns = prior.middles + prior.deviations * fit.found[: len(prior.beliefs)]
    return times(unknowns, Arrays.of(settings), fit.unit, factors[0], factors[1])


def _form(unknowns: Array, settings: Sequence[StepSetting], unit: Reference) -> Times:
    even = np.zeros(len(settings))
    return times(unknowns, Arrays.of(settings), unit, even, even)
