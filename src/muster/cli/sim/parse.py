"""Options of `muster sim` as a configuration."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from muster.cli.parse import parse_time, parsed, policy_of
from muster.cli.sim.options import Asked
from muster.files.errors import InputError, one_of, shown
from muster.files.source.quantity import parse_number
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.engine import INTERVAL
from muster.sim.scenario.configuration import NOISE, Configuration, Failures
from muster.sim.sweeps.drawn_sweep import DrawnSweep

T = TypeVar("T")


def configuration_of(asked: Asked, policy: str, seed: int) -> Configuration:
    """Parse and check the options, as far as that needs no file."""
    _refuse_both(asked)
    rounds = _optional("--rounds", asked.rounds, _positive)
    return Configuration(
        cluster=str(asked.cluster),
        trace=asked.trace,
        policy=policy_of("--policy", policy),
        seed=seed,
        oracle=asked.oracle,
        noise=NOISE if asked.noise is None else asked.noise,
        rigid=asked.rigid,
        most=asked.most,
        free_batch=asked.free_batch,
        speeds=None if asked.speeds is None else str(asked.speeds),
        first=asked.first,
        sort=asked.sort,
        skip=asked.skip,
        one_pool=asked.one_pool,
        pause=_optional("--pause", asked.pause, parse_time),
        restarts=asked.resize == "restart",
        release=parsed("--release", asked.release, parse_time),
        checkpoint=parsed("--checkpoint", asked.checkpoint, parse_time),
        interval=rounds or _optional("--interval", asked.interval, _positive) or INTERVAL,
        rounds=rounds is not None,
        strategy=asked.strategy,
        migrate=asked.migrate,
        interference=_optional("--interference", asked.interference, _disturbance) or UNDISTURBED,
        failures=_optional("--failures", asked.failures, _failures),
        true_links=_optional("--true-links", asked.true_links, _links) or (),
        learn_links=asked.learn_links,
        incidents=None if asked.incidents is None else str(asked.incidents),
        until=_optional("--until", asked.until, _positive),
        sweep=_optional("--sweep", asked.sweep, _sweep),
    )


def policies_of(text: str) -> tuple[str, ...]:
    """Parse comma-separated names, each once."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError.at("--policies", "is empty; write for example tiresias,fifo")
    for name in names:
        policy_of("--policies", name)
        if names.count(name) > 1:
            raise InputError.at("--policies", f"{shown(name)} is named twice")
    return names


def _refuse_both(asked: Asked) -> None:
    both = {
        ("--rounds", "--interval"): asked.rounds is not None and asked.interval is not None,
        ("--failures", "--incidents"): asked.failures is not None and asked.incidents is not None,
        ("--rigid", "--most"): asked.rigid and asked.most is not None,
        ("--oracle", "--noise"): asked.oracle and asked.noise is not None,
    }
    for (one, other), given in both.items():
        if given:
            raise InputError.at(one, f"conflicts with {other}; give one of them")


def _positive(text: str) -> float:
    seconds = parse_time(text)
    if seconds <= 0:
        raise ValueError(f"must be above 0, not {shown(text)}")
    return seconds


def _failures(text: str) -> Failures:
    """`mtbf=30d,repair=2h`."""
    times = _pairs(text, ("mtbf", "repair"), _positive, "mtbf=30d,repair=2h")
    missing = [name for name in ("mtbf", "repair") if name not in times]
    if missing:
        raise ValueError(f"{missing[0]} is missing; write for example mtbf=30d,repair=2h")
    return Failures(times["mtbf"], times["repair"])


def _sweep(text: str) -> DrawnSweep:
    """`members=27,epochs=27,epoch=2m,rung=4`."""
    names = [each.name for each in fields(DrawnSweep)]
    return DrawnSweep(**_pairs(text, names, _amount, "members=27,epochs=27,epoch=2m,rung=4"))


def _amount(text: str) -> float:
    """A number, or a time with its unit."""
    return float(text) if text.replace(".", "", 1).isdigit() else parse_time(text)


def _disturbance(text: str) -> Disturbance:
    """`0.1` (of the network), or by what is shared: `switch=0.3,socket=0.2`."""
    if "=" not in text:
        return Disturbance(network=parse_number(text))
    names = [each.name for each in fields(Disturbance)]
    return Disturbance(**_pairs(text, names, parse_number, "network=0.1,node=0.05"))


def _links(text: str) -> tuple[tuple[str, float], ...]:
    """`n3=0.1,n7=0.5`: parts above 0 of what is claimed, by node."""
    names = [part.partition("=")[0].strip() for part in text.split(",")]
    found = _pairs(text, names, parse_number, "n3=0.1,n7=0.5")
    for name, part in found.items():
        if not part > 0:
            raise ValueError(f"{name} must be above 0, not {part:g}")
    return tuple(sorted(found.items()))


def _pairs(
    text: str, names: list[str] | tuple[str, ...], parse: Callable[[str], float], example: str
) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise ValueError(f"{shown(part)} has no value; write for example {example}")
        if name not in names:
            raise ValueError(one_of(name, "part", names))
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = parse(value)
    return found


def _optional(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    return None if text is None else parsed(option, text, parse)
