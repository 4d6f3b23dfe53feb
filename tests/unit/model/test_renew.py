"""Copies with some fields changed are those of `dataclasses.replace`."""

from dataclasses import replace

import pytest

from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.renew import renewer
from muster.wire.api.job_records import JobRecord


def test_a_record_gets_what_is_renewed_and_nothing_else() -> None:
    record = JobRecord(1, "a", "ann", "default", "waiting", labels={"x": "y"}, rung=3)
    assert renewer(JobRecord)(record, position=7) == replace(record, position=7)


def test_what_follows_from_the_fields_follows_from_the_new_ones() -> None:
    job = Job("a", roles=(RoleSpec(Role.WORKER, Need(), 1, 1, 4),))
    fixed = renewer(Job)(job, roles=(RoleSpec(Role.WORKER, Need(), 1, 1, 1),))
    assert (job.elastic, fixed.elastic) == (True, False)
    assert fixed == replace(job, roles=fixed.roles)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        renewer(Job)(Job("a"), colour="red")
