"""Every message survives its line; what is no message is refused in words."""

import json
import math
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.wire.tasks.codec import MOST, BadMessageError, decode, encode
from muster.wire.tasks.messages import (
    Captured,
    Changed,
    Failed,
    Hello,
    Loss,
    Member,
    MemberPlan,
    Message,
    Received,
    Report,
    Saved,
    StepDone,
)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-MOST, MOST) | st.floats(-MOST, MOST) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
SHAPES = st.dictionaries(st.text(), VALUES, max_size=3)
COUNTS, QUANTITIES = st.integers(0, MOST), st.floats(0, MOST)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    int: COUNTS,
    float: QUANTITIES,
    float | None: st.none() | QUANTITIES,
    Loss: st.floats(),
    dict[str, Any]: SHAPES,
    Mapping[str, Loss]: st.dictionaries(st.text(), st.floats(), max_size=3),
    tuple[int, ...]: st.lists(COUNTS, max_size=3).map(tuple),
    tuple[float, ...]: st.lists(QUANTITIES, max_size=3).map(tuple),
    tuple[Member, ...]: st.lists(
        st.builds(Member, st.text(), st.text(), st.text(), QUANTITIES, st.text()), max_size=3
    ).map(tuple),
}


def made(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    values = {name: FIELDS.get(each, st.from_type(each)) for name, each in hints.items()}
    return st.builds(kind, **values)


def test_any_mapping_travels_as_an_object() -> None:
    report = Report("worker-0", ChainMap({"loss": 0.5}, {"accuracy": 0.9}), 3)
    assert decode(encode(report)) == Report("worker-0", {"accuracy": 0.9, "loss": 0.5}, 3)


MESSAGES = st.one_of([made(kind) for kind in get_args(Message)])

STEP = StepDone("worker-0", 3, 7, 1, 64, 0.25, 0.1, 0.2, 0.01, 0.05)
EXAMPLES: tuple[Message, ...] = (
    STEP,
    Changed("worker-0", 1, 5, ("worker-0",), 0.1, "plan"),
    Captured("worker-0", {}),
    Failed("worker-0", "ValueError"),
    Saved("worker-0", 5, "/c", 0.1),
)


@given(MESSAGES)
def test_a_message_comes_back_as_it_went(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    # repr: NaN differs from itself, its name does not.
    assert repr(decode(line)) == repr(message)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Changed", "pause", "Infinity"),
        ("Changed", "pause", "NaN"),
        ("Changed", "pause", "1e400"),
        ("Changed", "pause", "-1"),
        ("StepDone", "samples", "-1"),
        ("StepDone", "step", str(2**64)),
        ("StepDone", "seconds", "1e300"),
        ("Captured", "shape", '{"parameters":[{"count":1e999}]}'),
        ("Captured", "shape", f'{{"operations":{10**400}}}'),
        ("Captured", "steps", str(10**30)),
        ("Failed", "trace", '"\\ud800"'),
        ("Saved", "path", '"half \\udfff"'),
    ],
)
def test_what_no_store_could_hold_is_refused_in_words(kind: str, field: str, value: str) -> None:
    (message,) = [each for each in EXAMPLES if type(each).__name__ == kind]
    record = {**json.loads(encode(message)), field: "VALUE"}
    line = json.dumps(record).replace('"VALUE"', value).encode()
    with pytest.raises(BadMessageError, match=rf"{kind}\.{field}: "):
        decode(line)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "-Infinity", "-3.5"])
def test_a_loss_may_be_any_number(loss: str) -> None:
    line = encode(STEP).replace(b'"loss":0.25', f'"loss":{loss}'.encode())
    assert repr(decode(line)) == repr(replace(STEP, loss=float(loss)))


def test_the_line_of_a_plan() -> None:
    plan = MemberPlan(2, 1, (Member("worker-0", "worker", "127.0.0.1:80"),), batch=(256,))
    assert json.loads(encode(plan)) == {
        "kind": "MemberPlan",
        "formation": 2,
        "after": 1,
        "members": [
            {
                "task": "worker-0",
                "role": "worker",
                "address": "127.0.0.1:80",
                "bandwidth": 0.0,
                "device": "",
            }
        ],
        "deadline": 30.0,
        "sync": "auto",
        "owners": "reduce",
        "batch": [256],
        "balance": True,
        "shares": [],
        "leader": "",
    }
    assert decode(encode(plan)) == plan


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_no_number_survives(loss: float) -> None:
    step = StepDone("worker-0", 3, 7, 1, 64, loss, 0.1, 0.2, 0.01, 0.05)
    back = decode(encode(step))
    assert isinstance(back, StepDone)
    assert repr(back.loss) == repr(loss)


def test_a_newer_peer_may_say_more() -> None:
    record = json.loads(encode(STEP)) | {"colour": "blue"}
    assert decode(json.dumps(record).encode()) == STEP


def test_an_older_peer_may_say_less() -> None:
    line = b'{"kind":"Hello","job":"j","task":"t","role":"worker","address":"h:1","pid":5}'
    assert decode(line) == Hello("j", "t", "worker", "h:1", 5)


def test_whole_numbers_are_fine_as_floats() -> None:
    back = decode(encode(STEP).replace(b'"loss":0.25', b'"loss":2'))
    assert isinstance(back, StepDone)
    assert type(back.loss) is float


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "unknown kind of message: None"),
        (b'{"kind":"Bye"}', "unknown kind of message: 'Bye'"),
        (b'{"kind":["Stop"]}', "unknown kind"),
        (b'{"kind":"Received"}', "Received: field 'count' is missing"),
        (b'{"kind":"Received","count":"3"}', "Received.count: int is needed, not '3'"),
        (b'{"kind":"Received","count":true}', "Received.count: int is needed, not True"),
        (b'{"kind":"Received","count":1.0}', "Received.count: int is needed, not 1.0"),
        (b'{"kind":"Stop","reason":null}', "Stop.reason: str is needed, not None"),
        (b'{"kind":"Captured","task":"t","shape":[]}', "Captured.shape: dict is needed"),
        (
            b'{"kind":"MemberPlan","formation":2,"after":1,"members":[{"task":"a"}]}',
            "field 'role' is missing",
        ),
        (
            b'{"kind":"MemberPlan","formation":2,"after":1,"members":["a"]}',
            "Member: an object is needed",
        ),
        (b'{"kind":"MemberPlan","formation":2,"after":1,"members":"a"}', "a list is needed"),
        (
            b'{"kind":"MemberPlan","formation":2,"after":1,"members":[],"deadline":"soon"}',
            "a number is needed",
        ),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_message_is_refused(line: bytes, words: str) -> None:
    with pytest.raises(BadMessageError) as caught:
        decode(line)
    assert words in str(caught.value)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    line = encode(STEP).replace(b'"loss":0.25', b'"loss":1' + b"0" * 400)
    with pytest.raises(BadMessageError, match=r"StepDone\.loss"):
        decode(line)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(
        BadMessageError, match="Captured cannot be written as JSON: a value of type set"
    ):
        encode(Captured("worker-0", {"layers": {1, 2}}))


@given(st.binary(max_size=60))
def test_noise_raises_nothing_else(noise: bytes) -> None:
    try:
        decode(noise)
    except BadMessageError:
        return


def test_names_are_tuples_again() -> None:
    changed = Changed("worker-0", 2, 9, ("worker-0", "worker-1"), 0.01, "failure", lost=("worker-2",))
    assert decode(encode(changed)) == changed
    assert decode(encode(Received(4))) == Received(4)
