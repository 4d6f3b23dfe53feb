"""Parse generators: `philly-like:jobs=1000,load=0.8`, `poisson:sizes=1:0.7+8:0.3`."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from math import inf, isfinite
from typing import Any

from muster.files.errors import InputError, one_of, shown
from muster.files.source.quantity import parse_whole
from muster.sim.trace.columns import parse_any_seconds, parse_seconds
from muster.sim.trace.draw import Sizes
from muster.sim.trace.generate import GENERATORS, Generator, JobStream, OptimusJobs

MOST = 1_000_000_000
"""Bound of every count; a trace is generated as it is read, so there may be many jobs."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A generator and its parameters."""

    generator: Generator
    parameters: Any


def parse_spec(text: str) -> Spec:
    """Parse `name` or `name:key=value,...`; InputError is one line."""
    name, _, rest = text.partition(":")
    generator = GENERATORS.get(name.strip())
    if generator is None:
        raise InputError(f"{shown(text)}: {one_of(name.strip(), 'generator', GENERATORS)}")
    known = {field.name for field in fields(generator.parameters)}
    given: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            raise _wrong(text, one_of(key, f"parameter of {name.strip()}", sorted(known)))
        if not equals or not value:
            raise _wrong(
                text, f"{key} has no value; write for example {key}={_example(generator, key)}"
            )
        if key in given:
            raise _wrong(text, f"{key} is given twice")
        try:
            given[key] = PARSERS[key](value)
        except ValueError as error:
            raise _wrong(text, f"{key}: {error}") from None
    parameters = generator.parameters(**given)
    problem = _fault(parameters, given)
    if problem is not None:
        raise _wrong(text, problem)
    return Spec(generator, parameters)


def _wrong(text: str, problem: str) -> InputError:
    return InputError(f"{shown(text)}: {problem}")


def _example(generator: Generator, key: str) -> str:
    default = next(field.default for field in fields(generator.parameters) if field.name == key)
    if default is MISSING or default is None:
        return "10"
    if isinstance(default, Sizes):
        return written(default)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _fault(parameters: object, given: Mapping[str, object]) -> str | None:
    """Return a conflict between parameters, or None."""
    if isinstance(parameters, JobStream) and {"rate", "load"} <= given.keys():
        return "give either rate or load, not both"
    shortest, longest = getattr(parameters, "shortest", 0.0), getattr(parameters, "longest", inf)
    if shortest >= longest:
        return f"shortest ({shortest:g} s) must be below longest ({longest:g} s)"
    if isinstance(parameters, OptimusJobs) and parameters.low > parameters.high:
        return f"low ({parameters.low:g}) is above high ({parameters.high:g})"
    return None


def parse_sizes(text: str) -> Sizes:
    """Parse counts of devices with weights: `4`, `1:0.7+2:0.1+8:0.2`."""
    counts, weights = [], []
    for part in text.split("+"):
        size, colon, weight = part.partition(":")
        counts.append(parse_whole(size.strip(), 1, 100_000))
        weights.append(_number(weight, 0, inf) if colon else 1.0)
    if not sum(weights):
        raise ValueError(f"{shown(text)} has no weight above 0; write for example 1:0.7+8:0.3")
    return Sizes(tuple(counts), tuple(weights))


def written(sizes: Sizes) -> str:
    """Format sizes for `parse_sizes`."""
    pairs = zip(sizes.counts, sizes.weights, strict=True)
    return "+".join(f"{n}:{weight:g}" if len(sizes.counts) > 1 else f"{n}" for n, weight in pairs)


def _number(text: str, above: float, most: float) -> float:
    """Parse a number within bounds."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{shown(text)} is not a number; write for example 0.8") from None
    if not isfinite(number) or number < above or number > most:
        bound = f"from {above:g} to {most:g}" if most < inf else f"{above:g} or more"
        raise ValueError(f"must be {bound}, not {shown(text)}")
    return number


def _positive(most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = _number(text, 0.0, most)
        if number == 0:
            raise ValueError("must be above 0")
        return number

    return parse


def _containers(text: str) -> str:
    if text not in ("gpu", "cpu"):
        raise ValueError(one_of(text, "kind of container", ("gpu", "cpu")))
    return text


_whole = partial(parse_whole, least=1, most=MOST)

PARSERS: Mapping[str, Callable[[str], object]] = {
    "jobs": _whole,
    "load": _positive(inf),
    "capacity": _whole,
    "rate": _positive(inf),
    "sizes": parse_sizes,
    "elastic": _whole,
    "exponent": _positive(1.0),
    "spread": lambda text: _number(text, 0.0, inf),
    "node": _whole,
    "users": _whole,
    "pools": _whole,
    "mean": parse_seconds,
    "swing": lambda text: _number(text, 0.0, 1.0),
    "peak": parse_any_seconds,
    "shape": _positive(inf),
    "shortest": parse_seconds,
    "longest": parse_seconds,
    "window": parse_seconds,
    "most": _whole,
    "low": _positive(1.0),
    "high": _positive(1.0),
    "on": _containers,
}
"""The parser of each parameter of any generator."""
