"""What could never run is refused, counted by reason, and answered once for all equal jobs."""

from muster.model.job import Locality
from muster.model.pool import Pool, PoolTree, Quota, single_pool
from muster.model.topology import Level
from muster.sim.admission import Admission
from tests.builders import cluster, job, node_set
from tests.unit.sim.scripted import arrival

TWO = cluster(2, node_set(devices=4))


def admission() -> Admission:
    return Admission(TWO, single_pool({"A100": 8}))


def test_what_fits_on_the_empty_cluster_passes() -> None:
    assert not admission().refuses(arrival(job("j", 8)))


def test_what_never_fits_is_refused_and_counted_by_reason() -> None:
    made = admission()
    node_bound = Locality(Level.NODE)
    asked = [
        job("a", 9),
        job("b", 9),
        job("c", 5, locality=node_bound),
        job("d", 4, locality=node_bound),
    ]
    assert [made.refuses(arrival(each)) for each in asked] == [True, True, True, False]
    assert [refused.job.name for refused in made.refused] == ["a", "b", "c"]
    assert sorted(made.why.values()) == [1, 2]


def test_pools_and_types_that_are_not_there_are_reasons_too() -> None:
    made = admission()
    assert made.refuses(arrival(job("a", pool="nowhere")))
    assert made.refuses(arrival(job("b", device_types=("H100",))))
    assert any("nowhere" in why for why in made.why)
    assert any("H100" in why for why in made.why)


def test_the_limit_of_a_pool_and_its_reservation_bind() -> None:
    """At most 2, of which 1 reserved: three never; two not preemptible never; two preemptible do."""
    made = Admission(TWO, PoolTree({"p": Pool("p", quotas={"A100": Quota(1, limit=2)})}))
    assert made.refuses(arrival(job("a", 3, pool="p")))
    assert made.refuses(arrival(job("b", 2, pool="p", preemptible=False)))
    assert not made.refuses(arrival(job("c", 2, pool="p")))


def test_jobs_that_ask_for_the_same_get_the_same_answer_whatever_they_are_called() -> None:
    made = admission()
    assert [made.refuses(arrival(job(f"j{i}", 9, user=f"u{i}"))) for i in range(3)] == [True] * 3
    assert list(made.why.values()) == [3]


def test_with_more_nodes_it_answers_anew() -> None:
    made = admission()
    assert made.refuses(arrival(job("a", 12)))
    made.extend(cluster(3, node_set(devices=4)))
    assert not made.refuses(arrival(job("b", 12)))
