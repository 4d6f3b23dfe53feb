"""Messages between daemon and agents: they survive their lines, in one direction, within bounds."""

import json
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import (
    AgentHello,
    AgentReport,
    AttachTasks,
    FromAgent,
    Join,
    LogPart,
    RunTask,
    ToAgent,
)
from muster.wire.tasks.codec import DEPTH, MOST, BadMessageError, Codec

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-MOST, MOST) | st.floats(-MOST, MOST) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
HELLO = AgentHello("n0", "r", 0, {"name": "n0"}, ("7/1/worker-0",))


def valid(hint: Any) -> st.SearchStrategy[Any]:
    """Values that a field of this type may have."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return st.lists(valid(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(st.text(), VALUES, max_size=3)
    if get_origin(hint) is UnionType:
        return st.none() | valid(get_args(hint)[0])
    if is_dataclass(hint):
        return made(hint)  # type: ignore[arg-type]
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(0, MOST),
        float: st.floats(0, MOST),
        bool: st.booleans(),
        str: st.text(max_size=64),
    }
    return kinds[hint]


def made(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: valid(hint) for name, hint in hints.items()})


@given(st.one_of([made(kind) for kind in get_args(FromAgent)]))
def test_what_an_agent_says_comes_as_it_went(message: FromAgent) -> None:
    assert FROM_AGENT.decode(FROM_AGENT.encode(message)) == message


@given(st.one_of([made(kind) for kind in get_args(ToAgent)]))
def test_what_a_daemon_says_comes_as_it_went(message: ToAgent) -> None:
    assert TO_AGENT.decode(TO_AGENT.encode(message)) == message


@given(st.one_of([made(kind) for kind in get_args(ToAgent)]))
def test_an_agent_cannot_give_orders(message: ToAgent) -> None:
    with pytest.raises(BadMessageError, match="unknown kind"):
        FROM_AGENT.decode(TO_AGENT.encode(message))


def deep(levels: int) -> dict[str, Any]:
    return {"in": deep(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("codec", "message", "words"),
    [
        (FROM_AGENT, AgentHello("n" * 256, "r", 0, {}), "AgentHello.node: 256 characters"),
        (FROM_AGENT, AgentHello("n0", "r", 0, {}, ("t",) * 4097), "AgentHello.tasks: 4097 items"),
        (FROM_AGENT, AgentHello("n0", "r", 0, {"l": [0] * 4096}), "AgentHello.offer: 4097 entries"),
        (FROM_AGENT, AgentHello("n0", "r", 0, deep(DEPTH)), f"more than {DEPTH} lists or objects"),
        (FROM_AGENT, Join("t" * 4097, "n0", "r"), "Join.token: 4097 characters"),
        (FROM_AGENT, AgentReport(1, 0.0, "exited", "t" * 300, {}), "AgentReport.task: 300"),
        (FROM_AGENT, LogPart("l", 0, "A" * 400_000), "LogPart.data: 400000 characters"),
        (TO_AGENT, RunTask(1, "t", {"argv": ["a"] * 70_000}), "RunTask.order: 70001 entries"),
        (TO_AGENT, AttachTasks(1, ("t" * 256,)), "AttachTasks.tasks: 256 characters"),
    ],
)
def test_more_than_a_field_may_have_is_refused(codec: Codec[Any], message: Any, words: str) -> None:
    with pytest.raises(BadMessageError) as caught:
        codec.decode(codec.encode(message))
    assert words in str(caught.value)


@given(st.recursive(st.just({}), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_nothing_else_is_raised_for_any_offer(offer: Any) -> None:
    record = json.loads(FROM_AGENT.encode(HELLO)) | {"offer": offer}
    try:
        FROM_AGENT.decode(json.dumps(record).encode())
    except BadMessageError:
        return


def test_a_line_of_brackets_is_no_message() -> None:
    line = FROM_AGENT.encode(HELLO).replace(b'{"name":"n0"}', b'{"a":' * 900 + b"1" + b"}" * 900)
    with pytest.raises(BadMessageError):
        FROM_AGENT.decode(line)
