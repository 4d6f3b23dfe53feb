"""What was written comes back the same, by whichever version it was written; or it is refused."""

import json
from dataclasses import replace
from math import inf, nan
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.event import PoolsSet, Started, Submitted
from muster.model.job import Job
from muster.model.task import Fact
from muster.model.view import JobState, View
from muster.store.codec import (
    Form,
    decode,
    decode_fact,
    decode_record,
    encode,
    encode_fact,
    encode_record,
)
from muster.store.errors import UnreadableError, UnwritableError
from muster.wire.api.records import JobRecord
from tests.builders import cluster, job, view
from tests.unit.store.kinds import ANY_SIZE, values
from tests.unit.store.samples import record, submission

SOME = settings(max_examples=15, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("kind", get_args(Fact))
@SOME
@given(st.data())
def test_a_fact_of_any_kind_comes_back_as_it_went(kind: type[Fact], data: st.DataObject) -> None:
    fact = data.draw(values(kind))
    assert decode_fact(kind.__name__, encode_fact(fact)) == fact


@SOME
@given(st.dictionaries(st.integers(0, 99), values(JobState, ANY_SIZE), max_size=2), st.integers(0, 9))
def test_a_state_comes_back_as_it_went(jobs: dict[int, JobState], version: int) -> None:
    state = replace(view(cluster(2, racks=2), version=version), jobs=jobs)
    found = decode(encode(state), View)
    assert found == state
    assert found.cluster.index == {"n0": 0, "n1": 1}
    assert found.pools.below == state.pools.below


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_any_value_of_a_known_type_can_be_kept(form: Form) -> None:
    for kind, value in (
        (View, view(cluster(1), [job("a", 2, number=1)])),
        (dict[str, tuple[int, ...]], {"a": (1, 2), "b": ()}),
        (JobRecord, record(1, loss=0.5)),
    ):
        found: Any = decode(encode(value, form), kind, form)
        assert found == value


def test_infinity_is_kept_in_a_snapshot() -> None:
    assert decode(encode((1.0, inf, -inf)), tuple[float, ...]) == (1.0, inf, -inf)


def test_what_is_derived_is_derived_anew() -> None:
    body = json.loads(encode_fact(Submitted(job("a", 2, most=4), 1.0)))
    body["job"]["elastic"] = False
    fact = decode_fact("Submitted", json.dumps(body))
    assert isinstance(fact, Submitted)
    assert fact.job.elastic


def test_fields_of_a_newer_version_are_ignored() -> None:
    fact = submission(3)
    body = json.loads(encode_fact(fact))
    body["weather"] = {"rain": [1, 2]}
    body["job"]["colour"] = "red"
    assert decode_fact("Submitted", json.dumps(body)) == fact


def test_fields_that_an_older_version_did_not_have_get_their_defaults() -> None:
    body = json.loads(encode_fact(submission(3)))
    for name in ("program", "application", "pause"):
        del body["job"][name]
    fact = decode_fact("Submitted", json.dumps(body))
    assert isinstance(fact, Submitted)
    assert (fact.job.pause, fact.job.program) == (Job("a").pause, Job("a").program)


def test_a_kind_that_only_a_newer_version_knows_is_named() -> None:
    with pytest.raises(UnreadableError, match="'Teleported': written by a newer Muster"):
        decode_fact("Teleported", "{}")


@pytest.mark.parametrize("body", ["", "{", "[]", '{"job": 1}', '{"job":"a","generation":1,"at":null}'])
def test_a_body_that_is_no_fact_is_told(body: str) -> None:
    with pytest.raises(UnreadableError, match="cannot read Started"):
        decode_fact("Started", body)


@pytest.mark.parametrize(
    "fact",
    [
        Started(1, 1, inf),
        Started(1, 1, nan),
        Submitted(job("a", duration=inf, number=1), 1.0),
        Submitted(job("a", user="\ud800", number=1), 1.0),
        Submitted(job("a", command=["list"], number=1), 1.0),
        PoolsSet(object(), 1.0),  # type: ignore[arg-type]
    ],
)
def test_a_fact_that_would_not_come_back_is_refused(fact: Fact) -> None:
    with pytest.raises(UnwritableError, match=type(fact).__name__):
        encode_fact(fact)


def test_a_loss_that_is_no_number_is_not_known() -> None:
    kept = decode_record(encode_record(record(1, loss=nan, rate=inf)), JobRecord)
    assert (kept.loss, kept.rate) == (None, None)


def test_a_record_that_could_not_be_listed_is_refused() -> None:
    with pytest.raises(UnwritableError, match="JobRecord"):
        encode_record(record(1, submitted=nan))
