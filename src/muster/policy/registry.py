"""Every policy by name: those that the modules of this package and below list in `POLICIES`.

A name may be followed by options, `muster:makespan=0.7`: fields of the policy whose metadata has their
`range`. A policy with `aims` takes one of them as an option, too, `muster:aim=makespan`: a name for the
values of some fields. The last option that sets a field holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from muster import policy
from muster.policy.base import Policy

AIM = "aim"
"""The option that names what a policy aims at."""


class PolicyError(ValueError):
    """What is wrong with the name or the options of a policy, in one line."""


class Policies(dict[str, Policy]):
    """Policies by name; those with options are made when asked for."""

    def __missing__(self, text: str) -> Policy:
        """Return the policy with these options; KeyError if there is none of the name."""
        name, colon, rest = text.partition(":")
        if not colon or name not in self:
            raise KeyError(text)
        return _with_options(self[name], text, rest)

    def find(self, text: str) -> Policy:
        """Return the policy, with its options; PolicyError says what is wrong."""
        try:
            return self[text]
        except KeyError:
            name = text.partition(":")[0]
            known = ", ".join(sorted(self))
            raise PolicyError(f"no policy named {name!r}; policies: {known}") from None


def _with_options(base: Policy, text: str, rest: str) -> Policy:
    there: dict[str, Field[Any]] = {
        each.name: each
        for each in fields(base)  # type: ignore[arg-type]
        if "range" in each.metadata
    }
    given: dict[str, Any] = {}
    for part in rest.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name == AIM:
            given |= _aim(base, value)
            continue
        if name not in there:
            options = ", ".join((*there, *([AIM] if aims_of(base) else []))) or "none"
            raise PolicyError(f"{text!r}: {base.name} has no option {name!r}; options: {options}")
        given[name] = _number(text, name, value, *there[name].metadata["range"])
    named: Policy = replace(base, name=text, **given)  # type: ignore[type-var]
    return named


def aims_of(policy: Policy) -> Mapping[str, Mapping[str, Any]]:
    """Return what the policy may aim at: the values of its fields, by name of the aim."""
    aims: Mapping[str, Mapping[str, Any]] = getattr(policy, "aims", {})
    return aims


def _aim(base: Policy, aim: str) -> Mapping[str, Any]:
    aims = aims_of(base)
    if aim not in aims:
        others = f"; aims: {', '.join(aims)}" if aims else ", nor any other"
        raise PolicyError(f"{base.name} has no aim {aim!r}{others}")
    return aims[aim]


def _number(text: str, name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = least - 1.0
    if not least <= number <= most:
        raise PolicyError(f"{text!r}: {name} must be a number from {least:g} to {most:g}")
    return number


def every_aim() -> tuple[str, ...]:
    """Return what some policy may aim at."""
    return tuple(dict.fromkeys(aim for each in POLICIES.values() for aim in aims_of(each)))


def _found() -> Iterator[Policy]:
    for module in walk_packages(policy.__path__, "muster.policy."):
        if module.name != __name__:
            yield from getattr(import_module(module.name), "POLICIES", ())


POLICIES = Policies({each.name: each for each in _found()})
