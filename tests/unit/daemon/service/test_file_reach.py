"""A job is told at submission which of its nodes would not see its files."""

from dataclasses import replace

import pytest

from muster.daemon.service.submitting.file_reach import reach_caveats, reach_problem
from muster.model.job import Job, Need, Program, Role, RoleSpec
from tests.builders import cluster, node_set

CLUSTER = cluster(3, node_set(devices=4))
NAMES = tuple(node.name for node in CLUSTER.nodes)


def job(workers: int, **program: object) -> Job:
    spec = RoleSpec(Role.WORKER, Need(1), workers, workers, workers)
    return Job("train", roles=(spec,), program=replace(Program(), **program))  # type: ignore[arg-type]


def test_a_job_that_spans_nodes_without_common_files_is_refused_with_what_to_do() -> None:
    said = reach_problem(job(8), CLUSTER, NAMES)
    assert "share no file system" in said
    assert "ship: ." in said and "checkpoint: s3://" in said
    assert "ship" not in reach_problem(job(8, ship="sha256:0"), CLUSTER, NAMES)
    brought = job(8, ship="sha256:0", checkpoint="s3://bucket/run")
    assert reach_problem(brought, CLUSTER, NAMES) == ""
    assert reach_caveats(brought, NAMES) == ()


def test_a_job_that_fits_one_node_or_those_that_share_is_only_told() -> None:
    assert reach_problem(job(4), CLUSTER, NAMES) == ""
    assert reach_problem(job(8), CLUSTER, NAMES[:1]) == ""
    assert len(reach_caveats(job(4), NAMES)) == 2


@pytest.mark.parametrize("place", ["/shared/run", "file:///shared/run", ""])
def test_a_path_is_where_one_node_sees_it(place: str) -> None:
    (said,) = reach_caveats(job(1, ship="sha256:0", checkpoint=place), NAMES)
    assert "seen by that node alone" in said


def test_nothing_is_said_where_all_nodes_share() -> None:
    assert (reach_problem(job(8), CLUSTER, ()), reach_caveats(job(8), ())) == ("", ())
