"""Answers of the models: a number with its interval, or the reason there is none."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite


class WhyUnknown(StrEnum):
    """Why a model cannot answer."""

    TOO_FEW_POINTS = "too_few_points"
    NOT_A_NUMBER = "not_a_number"
    NO_BANDWIDTH = "no_bandwidth"
    OUT_OF_MEMORY = "out_of_memory"
    NO_RATE = "no_rate"
    NOT_CONVERGING = "not_converging"
    BAD_PLAN = "bad_plan"
    NO_PROFILE = "no_profile"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction and its 80 % interval."""

    mean: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.mean) and self.low <= self.mean <= self.high):
            raise ValueError(f"not an estimate: {self.low} <= {self.mean} <= {self.high}")


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer: a code for programs, a sentence for people."""

    why: WhyUnknown
    detail: str


class BadMeasurementError(ValueError):
    """A measurement that cannot be true: negative or not a number."""


Answer = Estimate | Unknown
