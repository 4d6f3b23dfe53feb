"""Who did what: marks the requests that belong in the audit log, and says when to write a refusal."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from muster.daemon.service.protocol import ServiceError, UnavailableError
from muster.daemon.tracing import TRACING
from muster.model.job import Job
from muster.model.renew import renewer
from muster.model.sweep import Sweep
from muster.wire.api.records import ActRecord

if TYPE_CHECKING:
    from muster.daemon.service.requests import Requests

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

REFUSED, DONE = "refused", "done"
BETWEEN = 1.0
"""Least s between two refusals of one act of one user in the log: a loop must not fill it."""

NAMED = 10
"""Of many things that a request is about, those that are named."""

_renewed = renewer(ActRecord)

_current: ContextVar[ActRecord | None] = ContextVar("muster-act", default=None)


def audited(act: str, *, refusals_only: bool = False) -> Callable[[F], F]:
    """Log who calls a request, on what, with which further arguments, and whether it was refused.

    What the request posts to the daemon is logged in the same transaction. `refusals_only`: for a
    request that changes nothing.
    """

    def marked(request: F) -> F:
        names = tuple(inspect.signature(request).parameters)

        @wraps(request)
        async def logged(self: "Requests", *given: Any, **named: Any) -> Any:
            (_, caller), (_, what), *rest = _arguments(names[1:], given, named)
            detail, address = _detail(rest), caller.address
            said = ActRecord(self.now(), caller.user, act, _target(what), DONE, detail, address=address)
            before = _current.set(None if refusals_only else said)
            try:
                with TRACING.span(act, user=caller.user):
                    answer = await request(self, *given, **named)
                if (unwritten := _current.get()) is not None:
                    await self.log_act(unwritten)
            except UnavailableError:
                raise
            except ServiceError as error:
                await self.log_refusal(replace(said, outcome=REFUSED, detail=str(error)))
                raise
            finally:
                _current.reset(before)
            return answer

        return cast("F", logged)

    return marked


def _arguments(
    names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return a call's arguments by name, in order. (`Signature.bind` is a tenth of a submission.)"""
    found = [*zip(names, given, strict=False)]
    return [*found, *((name, named[name]) for name in names[len(given) :] if name in named)]


def taken_act(target: str | None) -> ActRecord | None:
    """Return the act of the request in progress, to be written with its facts; only once."""
    act = _current.get()
    if act is None:
        return None
    _current.set(None)
    return _renewed(act, target=target) if target else act


def _detail(arguments: Iterable[tuple[str, Any]]) -> str:
    """Return a request's further arguments as text, without those that leave things unchanged."""
    parts = (
        told(value) if _has_parts(value) else told({name: value})
        for name, value in arguments
        if name != "key"
    )
    return ", ".join(filter(None, parts))


def told(value: Any) -> str:
    """Return a value as text: names and values of its parts, without those that are None or empty."""
    if is_dataclass(value):
        return told({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        parts = ((str(key).replace("_", " "), told(each)) for key, each in value.items())
        return ", ".join(f"{key} {text}" for key, text in parts if text)
    if isinstance(value, list | tuple):
        return " ".join(map(told, value))
    return "" if value is None else str(value)


def _has_parts(value: Any) -> bool:
    return isinstance(value, Mapping) or is_dataclass(value)


def _target(what: Any) -> str:
    if isinstance(what, list | tuple):
        return f"{len(what)} jobs: {', '.join(map(_target, what[:NAMED]))}"
    if isinstance(what, Sweep):
        return f"{what.template.full_name}, {what.size} members"
    return what.full_name if isinstance(what, Job) else str(what)


@dataclass(slots=True)
class Refusals:
    """Bounds how many refusals are logged."""

    _last: dict[tuple[str, str], float] = field(default_factory=dict)
    _left_out: dict[tuple[str, str], int] = field(default_factory=dict)

    def to_log(self, act: ActRecord) -> ActRecord | None:
        """Return the refusal with the number of those left out before it; None: leave it out."""
        key = (act.user, act.act)
        if act.at < self._last.get(key, float("-inf")) + BETWEEN:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return None
        if len(self._last) > 10_000:  # users come and go
            self._last.clear()
        self._last[key] = act.at
        more = self._left_out.pop(key, 0)
        return replace(act, detail=f"{act.detail} (and {more} more)") if more else act
