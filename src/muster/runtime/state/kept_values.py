"""The state of the user's own objects: anything with `state_dict` and `load_state_dict`."""

from collections.abc import Mapping
from typing import Any

from muster.runtime.errors import CannotJoinError
from muster.runtime.state.tree import placed_like


def schedule_value(scheduler: Any) -> dict[str, Any]:
    """Return a schedule's attributes; its functions are code, and one of them is our wrapper."""
    return {key: value for key, value in scheduler.state_dict().items() if not callable(value)}


def kept_value(thing: Any) -> dict[str, Any]:
    """Return a kept object's state."""
    return schedule_value(thing) if hasattr(thing, "optimizer") else thing.state_dict()


def calls_of(thing: Any) -> list[int]:
    """Return the step of a guarded schedule's last call, and its calls in that step."""
    record: Any = getattr(getattr(thing, "step", None), "guard", None)
    return [record.step, record.done] if hasattr(record, "done") else []


def set_calls(thing: Any, calls: list[int]) -> None:
    """Let a redone step know of calls that another worker has made in it."""
    if calls and calls_of(thing):
        thing.step.guard.step, thing.step.guard.done = calls


def set_kept(things: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Give kept objects another worker's state."""
    if things.keys() != values.keys():
        ours, theirs = set(things) - set(values), set(values) - set(things)
        raise CannotJoinError(
            f"the others keep {_listed(theirs) or 'nothing more'} and this worker "
            f"{_listed(ours) or 'does not'}: call ctx.keep() with the same names on every worker, not "
            "under `if ctx.primary`"
        )
    for name, value in values.items():
        thing = things[name]
        thing.load_state_dict(placed_like(value, kept_value(thing)))


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
