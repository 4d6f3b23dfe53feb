"""From a configuration to a result: small cases worked out by hand, and input that cannot be."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.cycle.cycle import Memory
from muster.files.cluster.cluster_file import load_cluster
from muster.files.errors import InputError
from muster.files.snapshot import CycleSnapshot, encode_snapshot
from muster.model.cluster import NodeState
from muster.model.event import NodeLost, NodeReturned
from muster.model.view import View
from muster.sim.result import Result
from muster.sim.scenario.configuration import Configuration, Failures
from muster.sim.scenario.prepare import prepare, run_prepared, seed_matters
from tests.unit.sim.small import cluster_file, trace_file, two_jobs

ROOT = Path(__file__).parents[3]


def simulated(configuration: Configuration) -> Result:
    """The result of a configuration."""
    return run_prepared(prepare(configuration))


def ends(configuration: Configuration) -> dict[str, float | None]:
    """When each job ended."""
    return {record.name: record.ended for record in simulated(configuration).records}


def refused(configuration: Configuration) -> str:
    """The one line that says what is wrong."""
    with pytest.raises(InputError) as caught:
        simulated(configuration)
    return str(caught.value)


def incidents(folder: Path, *rows: str) -> str:
    """A file of incidents."""
    path = folder / "incidents.csv"
    path.write_text("\n".join(["at,node,event", *rows, ""]), encoding="utf-8")
    return str(path)


def test_jobs_run_one_after_another_on_one_device(tmp_path: Path) -> None:
    """a: 0 to 100; b: 100 to 150. With 30 s a start: 130, and 130 + 30 + 50 = 210."""
    base = two_jobs(tmp_path)
    assert ends(base) == {"a": 100.0, "b": 150.0}
    assert ends(replace(base, pause=30.0)) == {"a": 130.0, "b": 210.0}
    assert ends(replace(base, pause=None)) == {"a": 130.0, "b": 210.0}, "30 s are a job's own"


def test_a_snapshot_of_the_live_cluster_is_simulated_on_with_all_of_its_nodes(tmp_path: Path) -> None:
    """One device is in use and the node drains, which says nothing of last month's: as for a file."""
    base = two_jobs(tmp_path)
    loaded = load_cluster(Path(base.cluster))
    node = replace(loaded.cluster.nodes[0], free=0, state=NodeState.DRAINING, until=5.0, why="repair")
    live = View(7, loaded.cluster.with_nodes((node,)), loaded.pools, {})
    snapshot = tmp_path / "now.json"
    snapshot.write_bytes(encode_snapshot(CycleSnapshot(60.0, "fifo", live, Memory())))
    assert ends(replace(base, cluster=str(snapshot))) == {"a": 100.0, "b": 150.0}


def test_shortest_first_turns_them_round(tmp_path: Path) -> None:
    """With an oracle b goes first: 50, then a until 150."""
    assert ends(replace(two_jobs(tmp_path), policy="srtf", oracle=True)) == {"a": 150.0, "b": 50.0}


def test_rounds_start_jobs_at_multiples_only(tmp_path: Path) -> None:
    """Submitted at 10, started at 60, done at 160; the next start is at the round of 180."""
    base = two_jobs(tmp_path)
    trace_file(tmp_path, "10,1,100,a", "10,1,50,b")
    assert ends(replace(base, rounds=True, interval=60.0)) == {"a": 160.0, "b": 230.0}


def test_a_lost_node_costs_the_work_since_the_checkpoint(tmp_path: Path) -> None:
    """Checkpoints at 20 and 40, lost at 50, back at 60: 60 s are left of a, so it ends at 120."""
    base = replace(two_jobs(tmp_path), checkpoint=20.0, first=1)
    lost = replace(base, incidents=incidents(tmp_path, "50,n1,lost", "1m,n1,returned"))
    assert ends(lost) == {"a": 120.0}
    (record,) = simulated(lost).records
    assert record.failures == 1


def test_a_draining_node_is_empty_by_its_deadline(tmp_path: Path) -> None:
    """a, of 100 s, has to leave n1 before 70, and waits until n1 is back: 10 s are done."""
    path = tmp_path / "drains.csv"
    path.write_text("at,node,event,by\n10,n1,draining,1m\n500,n1,returned,\n")
    assert ends(replace(two_jobs(tmp_path), incidents=str(path)))["a"] == 590.0


def test_only_a_draining_node_has_a_deadline(tmp_path: Path) -> None:
    path = tmp_path / "lost.csv"
    path.write_text("at,node,event,by\n10,n1,lost,1m\n")
    with pytest.raises(InputError, match="2: by: only a draining node has a deadline"):
        prepare(replace(two_jobs(tmp_path), incidents=str(path)))


def test_a_draining_node_takes_no_new_job(tmp_path: Path) -> None:
    """a goes on to its end at 100; b waits until the node takes jobs again at 500."""
    drained = incidents(tmp_path, "10,n1,draining", "500,n1,returned")
    assert ends(replace(two_jobs(tmp_path), incidents=drained)) == {"a": 100.0, "b": 550.0}


def test_a_node_that_joins_later_is_waited_for(tmp_path: Path) -> None:
    """The only node joins at 40, leaves at 400 and joins again at 500: a from 40 to 140, b to 190."""
    comes = incidents(tmp_path, "40,n1,joined", "400,n1,left", "500,n1,joined")
    base = replace(two_jobs(tmp_path), incidents=comes)
    assert ends(base) == {"a": 140.0, "b": 190.0}
    trace_file(tmp_path, "0,1,100,a", "410,1,50,b")
    assert ends(base) == {"a": 140.0, "b": 550.0}


def test_what_runs_on_a_node_that_leaves_is_lost_up_to_its_checkpoint(tmp_path: Path) -> None:
    """Checkpoints at 20 and 40, left at 50, joined again at 60: 60 s are left of a."""
    base = replace(two_jobs(tmp_path), checkpoint=20.0, first=1)
    left = replace(base, incidents=incidents(tmp_path, "50,n1,left", "60,n1,joined"))
    assert ends(left) == {"a": 120.0}


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_drain_before_it_leaves_loses_nothing(tmp_path: Path, node: str) -> None:
    """Whichever of two nodes a runs on drains from 10 with a minute's notice and leaves at 70."""
    base = replace(two_jobs(tmp_path), first=1)
    cluster_file(tmp_path, nodes=2)
    path = tmp_path / "leaves.csv"
    path.write_text(f"at,node,event,by\n10,{node},draining,1m\n70,{node},left,\n", encoding="utf-8")
    assert ends(replace(base, incidents=str(path))) == {"a": 100.0}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (("5,n1,lost", "9,n1,joined"), "3: node: n1 is there already"),
        (("5,n1,left", "9,n1,returned"), "3: node: n1 is not there then"),
        (("5,n1,gone",), "2: event"),
    ],
)
def test_nodes_come_and_go_in_order(tmp_path: Path, rows: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        prepare(replace(two_jobs(tmp_path), incidents=incidents(tmp_path, *rows)))


def test_what_is_left_when_time_is_up_is_unfinished(tmp_path: Path) -> None:
    result = simulated(replace(two_jobs(tmp_path), until=120.0))
    assert {record.name: record.fate for record in result.records} == {"a": "done", "b": "unfinished"}


def test_elastic_jobs_grow_unless_they_are_rigid_or_limited(tmp_path: Path) -> None:
    """400 device-seconds at exponent 1: 100 s on four devices, 200 s on two, 400 s on one."""
    trace = trace_file(tmp_path, "0,1..4,400,a")
    cluster = cluster_file(tmp_path, devices=4)
    base = Configuration(cluster=str(cluster), trace=str(trace), policy="fifo", pause=0.0)
    assert ends(base) == {"a": 100.0}
    assert ends(replace(base, most=2)) == {"a": 200.0}
    assert ends(replace(base, rigid=True)) == {"a": 400.0}


def test_equal_configurations_give_equal_results_to_the_digit(tmp_path: Path) -> None:
    cluster = str(cluster_file(tmp_path, nodes=2, devices=4))
    failures = Failures(mtbf=20_000.0, repair=3_000.0)
    base = Configuration(
        cluster=cluster,
        trace="philly-like:jobs=12,capacity=8,elastic=2,load=1.5",
        policy="afs",
        failures=failures,
    )
    one, two = simulated(base), simulated(base)
    assert replace(one, cpu=0.0) == replace(two, cpu=0.0)
    assert one.hash == base.hash
    assert sum(record.failures for record in one.records) > 0
    assert simulated(replace(base, seed=1)).records != one.records


def test_failures_are_drawn_node_by_node(tmp_path: Path) -> None:
    """Another node more leaves those of the others as they were; each loss is followed by a return."""
    base = replace(two_jobs(tmp_path), failures=Failures(mtbf=100.0, repair=10.0), until=10_000.0)
    few = prepare(base).setting.incidents
    cluster_file(tmp_path, nodes=2)
    more = prepare(base).setting.incidents
    assert [each for each in more if getattr(each, "node", "") == "n1"] == list(few)
    assert [type(each) for each in few] == [NodeLost, NodeReturned] * (len(few) // 2)
    # 10,000 s at 110 s from loss to loss are 91 of them; a Poisson count of that mean has s = 9.5.
    assert 91 - 4 * 9.5 < len(few) / 2 < 91 + 4 * 9.5
    assert prepare(replace(base, seed=1)).setting.incidents != more


def test_failures_beyond_all_measure_are_refused(tmp_path: Path) -> None:
    base = replace(two_jobs(tmp_path), failures=Failures(0.001, 0.001))
    assert refused(base).startswith("--failures: some ")


def test_pools_of_the_trace_are_made_where_the_cluster_has_none(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    trace_file(tmp_path, "0,1,100,x", "0,1,50,y", heading="submitted,devices,duration,pool")
    assert prepare(base).setting.pools.leaves() == ("x", "y")
    assert simulated(base).notes == ("2 pools of equal shares were made for the trace",)
    assert prepare(replace(base, one_pool=True)).setting.pools.leaves() == ("default",)


def test_a_pool_that_the_cluster_does_not_have_is_one_line(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    cluster_file(tmp_path, pools="pools:\n  research: {share: 2}\n  vision: {share: 1}\n")
    trace_file(tmp_path, "0,1,100,reserch", heading="submitted,devices,duration,pool")
    message = refused(base)
    assert "called 'reserch' (did you mean 'research'?)" in message
    assert "--one-pool" in message
    assert len(simulated(replace(base, one_pool=True)).records) == 1


def test_jobs_that_are_too_large_are_counted_and_noted(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    trace_file(tmp_path, "0,1,100,a", "0,2,50,b", "0,2,50,c")
    result = simulated(base)
    assert [record.fate for record in result.records] == ["done", "refused", "refused"]
    (note,) = result.notes
    assert note.startswith("refused 2: its gang takes 2 devices, the cluster has 1")


def test_when_nothing_can_run_it_is_said(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    trace_file(tmp_path, "0,2,100,a", "0,3,50,b")
    assert "none of its 2 jobs can run on" in refused(base)
    trace_file(tmp_path)
    assert refused(base) == f"{base.trace}: has no jobs"


def test_two_jobs_of_one_name_are_refused_or_left_out(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    trace_file(tmp_path, "0,1,100,a", "200,1,50,a")
    assert refused(base).endswith(
        "name: a second job is called 'a', submitted at 200 s; --skip leaves it out"
    )
    result = simulated(replace(base, skip=True))
    assert [record.ended for record in result.records] == [100.0]
    assert result.notes[0].startswith("1 row was skipped; the first: ")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (("5,1,100,a", "0,1,50,b"), ":3: submitted: submitted before the row above it"),
        (("0,1,,a",), ":2: duration: must not be empty"),
    ],
)
def test_a_bad_trace_is_one_line(rows: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    trace_file(tmp_path, *rows)
    assert problem in refused(base)


def test_a_t4_workload_is_checked_too(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    heading = "name,time,application,num_replicas,batch_size"
    trace_file(tmp_path, "a,0,bert,1,12", heading=heading)
    assert "give the folder of its measured speeds" in refused(base)
    assert "has none of the folders bert" in refused(replace(base, speeds=str(tmp_path)))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("50,n9,lost", ":2: node: 'n9' is not a node of the cluster"),
        ("50,n1,los", ":2: event: 'los' is not a event (did you mean 'lost'?)"),
        ("-1,n1,lost", ":2: at: must be 0 or more"),
        ("soon,n1,lost", ":2: at: 'soon' is not a time"),
        ("50,n1", ":2: has 2 values instead of 3"),
    ],
)
def test_a_bad_incident_is_one_line(row: str, problem: str, tmp_path: Path) -> None:
    assert problem in refused(replace(two_jobs(tmp_path), incidents=incidents(tmp_path, row)))


def test_options_that_the_trace_has_no_use_for_are_refused(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    assert refused(replace(base, free_batch=True)).startswith("--free-batch: ")
    assert refused(replace(base, speeds=str(tmp_path))).startswith("--speeds: ")
    assert "did you mean 'spread'" in refused(replace(base, strategy="sprad"))
    assert "did you mean 'fifo'" in refused(replace(base, policy="fif"))


def test_where_the_seed_plays_a_part(tmp_path: Path) -> None:
    base = two_jobs(tmp_path)
    assert not seed_matters(base, ["fifo"])
    assert seed_matters(base, ["fifo", "srtf"]), "what srtf is told is measured"
    assert not seed_matters(replace(base, oracle=True), ["srtf"])
    assert seed_matters(replace(base, trace="poisson"), ["fifo"])
    assert seed_matters(replace(base, failures=Failures(1e6, 1e3)), ["fifo"])


@pytest.mark.parametrize(("name", "nodes", "devices"), [("t4-16x4", 16, 64), ("philly", 312, 2490)])
def test_the_example_clusters_are_of_their_size(name: str, nodes: int, devices: int) -> None:
    path = ROOT / f"examples/clusters/{name}.yaml"
    cluster = prepare(
        Configuration(cluster=str(path), trace="poisson:jobs=1", policy="fifo")
    ).setting.cluster
    assert len(cluster.nodes) == nodes
    assert sum(cluster.devices_by_type().values()) == devices
