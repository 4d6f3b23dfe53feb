"""The T4 world: numbers worked out by hand from the rows of the extract and the published rules."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from muster.perf.learnt.held import Held, packed
from muster.sim.worlds.interpolate import Interpolation
from muster.sim.worlds.t4 import TrainedT4
from muster.sim.worlds.t4_files import read_tables, read_workload
from muster.sim.worlds.t4_tables import NODE, T4Model, TableError

MINI = Path(__file__).parents[2] / "data" / "t4-mini"
ONE_AT_12 = (0.9215156733989716, 0.013695754051208497)
"""Step and sync of bert on one device with 12 samples, in s."""
SIX_NODES_AT_12 = 1.8948083817958832
"""Step of bert on 24 devices of 6 nodes with 12 samples each."""
EPOCH = 7387.0
"""Bert's first epoch ends there with the smallest batch, 12, and later with all others; the second at
twice that."""


@pytest.fixture(scope="module")
def tables() -> dict[str, T4Model]:
    return read_tables(MINI / "speeds")


@pytest.fixture(scope="module")
def bert(tables: dict[str, T4Model]) -> T4Model:
    return tables["bert"]


def crew(*nodes: int, batch: int | None = None) -> Held:
    return Held("T4", nodes, batch=batch)


def test_exact_placement_is_linear_in_the_batch_of_a_device(bert: T4Model) -> None:
    # 40 samples on 4 devices are 10 each, two thirds of the way from 8 to 11.
    assert bert.step((4,), 40).seconds == pytest.approx(
        0.740765243768692 / 3 + 0.8971466571092606 * 2 / 3
    )
    assert bert.step((4,), 40).sync == pytest.approx(
        0.09240074634552001 / 3 + 0.09296905136108399 * 2 / 3
    )


def test_a_ring_of_nodes_has_no_first_one(bert: T4Model) -> None:
    # 60 samples on 5 devices are 12 each; the tables call the placement 14.
    assert bert.step((4, 1), 60) == bert.step((1, 4), 60)
    assert bert.step((4, 1), 60).seconds == pytest.approx(2.158826097846031)


def test_a_batch_too_large_for_the_device_is_accumulated(bert: T4Model) -> None:
    # 384 on one device: at most 12 at a time, so 31 further passes without synchronising.
    step, sync = ONE_AT_12
    timed = bert.step((1,), 384)
    assert timed.seconds == pytest.approx(step + 31 * (step - sync))
    assert timed.sync == pytest.approx(sync)
    assert timed.batch == 384


def test_one_device_beyond_the_smallest_batch_takes_two_passes(bert: T4Model) -> None:
    # 12 is the smallest batch: one pass. 16 would fit in two passes of 8, and 13 goes as two of 7.
    assert bert.step((1,), 12).seconds == pytest.approx(ONE_AT_12[0])
    assert bert.step((1,), 16).seconds == pytest.approx(2 * 0.7032617032527924 - 0.013705408036708831)
    assert bert.step((1,), 13).batch == 14


def test_the_batch_really_used_never_exceeds_the_largest(bert: T4Model) -> None:
    # 384 on 5: 77 each, in 7 passes of 11, would be 385; so 10 at a time, 350 in all.
    assert bert.step((4, 1), 384).batch == 350


def test_what_no_placement_covers_is_found_by_number(bert: T4Model) -> None:
    # 288 on 6 full nodes: 12 each, a row of the scalability table. 17 nodes count as 16.
    assert bert.step(packed(24, NODE), 288).seconds == pytest.approx(SIX_NODES_AT_12)
    wide = (*(4,) * 15, 2, 2)
    assert bert.step(wide, 256).seconds == pytest.approx(1.8735220730304718)


def test_gain_uses_the_gradients_of_the_epoch_between_measured_batches(bert: T4Model) -> None:
    # 36 lies half way between 24 and 48 and is three times the smallest.
    sqr = (82891973134775.4 + 57286300666507.94) / 2
    var = (7412524673455386.0 + 6875640191433787.0) / 2
    assert bert.gains(36)[0] == pytest.approx((var + sqr) / (var / 3 + sqr))
    assert list(bert.gains(12)) == pytest.approx([1.0, 1.0])
    # Noise of the smallest batch in the second epoch: var / sqr x 12 samples.
    assert bert.noises(12)[1] == pytest.approx(38257633123936.53 / 408336357954.4091 * 12)


def test_pace_holds_until_the_end_of_the_epoch(bert: T4Model) -> None:
    truth = TrainedT4(bert, 12)
    assert truth.work == 2 * EPOCH
    pace = truth.pace(crew(1), 0.0)
    assert pace.rate == pytest.approx(1 / ONE_AT_12[0])
    assert pace.until == EPOCH
    assert truth.pace(crew(1), EPOCH).until == 2 * EPOCH
    # Sums of floats may stop just short of an end: that is still the next epoch.
    assert truth.pace(crew(1), EPOCH * (1 - 1e-12)).until == 2 * EPOCH


def test_a_job_may_be_told_another_batch(bert: T4Model) -> None:
    truth = TrainedT4(bert, 384, free=True)
    told = truth.shown(crew(4, batch=48), 0.0)
    sqr, var = 57286300666507.94, 6875640191433787.0
    assert told.step == pytest.approx(0.9571182131767273)
    assert told.gain == pytest.approx((var + sqr) / (var / 4 + sqr))
    assert told.noise == pytest.approx(var / sqr * 12)


@pytest.mark.parametrize("done", [0.0, EPOCH / 3, EPOCH, 1.7 * EPOCH])
def test_the_oracle_knows_the_time_left(bert: T4Model, done: float) -> None:
    # 384 is dealt without rest to 1, 4 and 8 devices: steps left times the time of a step.
    truth = TrainedT4(bert, 384)
    told = truth.outlook(done)
    steps = sum(
        max(0.0, EPOCH - max(0.0, done - e * EPOCH)) / gain for e, gain in enumerate(bert.gains(384))
    )
    for devices in (1, 4, 8):
        seconds = steps * bert.step(packed(devices, NODE), 384).seconds
        assert told.left / told.speed.rate("T4", devices) == pytest.approx(seconds, rel=1e-6)


def test_the_oracle_knows_the_speed_where_it_runs(bert: T4Model) -> None:
    # 60 samples on 5 devices are 12 each, on (4, 1) in the table: packed. Of the 8 of (4, 4) in order
    # and the other way round all is equal.
    truth = TrainedT4(bert, 60)
    told = truth.outlook(0.0, crew(1, 4))
    assert told.here == pytest.approx(told.speed.rate("T4", 5))
    # On 24 devices of 24 nodes (as good as 16) it is as much slower as a step takes longer.
    truth = TrainedT4(bert, 288)
    scattered, close = bert.step((1,) * 24, 288).seconds, SIX_NODES_AT_12
    told = truth.outlook(0.0, crew(*(1,) * 24))
    assert told.here == pytest.approx(told.speed.rate("T4", 24) * close / scattered)


def test_bounds_are_those_of_the_best_placement(bert: T4Model) -> None:
    # Batch 12 on 1 device: all 2 x 7387 steps. On 4, 3 samples each are too few for the tables, so the
    # next larger job: 48 on 4 devices, of which the extract has one placement.
    step = ONE_AT_12[0]
    alone = TrainedT4(bert, 12).ideal("T4", 1, 1)
    assert alone.shortest == alone.cheapest == pytest.approx(2 * EPOCH * step)
    four = TrainedT4(bert, 48).ideal("T4", 4, 4)
    steps = sum(EPOCH / gain for gain in bert.gains(48))
    assert four.shortest == pytest.approx(steps * 0.9571182131767273)
    assert four.cheapest == pytest.approx(4 * four.shortest)


def test_with_a_free_batch_no_number_of_devices_is_slower_than_with_a_fixed_one(bert: T4Model) -> None:
    fixed, free = TrainedT4(bert, 384).outlook(0.0), TrainedT4(bert, 384, free=True).outlook(0.0)
    for devices in (1, 4, 8):
        own = fixed.left / fixed.speed.rate("T4", devices)
        assert free.left / free.speed.rate("T4", devices) <= own * (1 + 1e-9)
        batch = free.speed.batch("T4", devices)
        assert batch is not None
        assert 12 <= batch <= 384
    assert fixed.speed.batch("T4", 4) is None


def test_jobs_of_a_workload(tables: dict[str, T4Model]) -> None:
    first, second, third = read_workload(MINI / "workload.csv", tables, most=48)
    assert (first.at, first.job.name, first.job.application, first.job.batch) == (
        5813.0,
        "bert-27",
        "bert",
        384,
    )
    assert first.job.pause == 30.0
    # 384 over the smallest batch of a device, 4, is 96: the cap counts. Ncf runs on one device.
    assert [(a.job.workers.gang, a.job.workers.most) for a in (first, second, third)] == [
        (1, 48),
        (1, 48),
        (1, 1),
    ]


def test_jobs_that_cannot_grow_have_the_devices_of_the_file(tables: dict[str, T4Model]) -> None:
    found = list(read_workload(MINI / "workload.csv", tables, elastic=False))
    assert [(a.job.workers.gang, a.job.workers.most) for a in found] == [(12, 12), (16, 16), (1, 1)]


def test_truth_and_outlook_travel_to_another_process(bert: T4Model) -> None:
    truth = TrainedT4(bert, 384)
    there = pickle.loads(pickle.dumps(truth))
    assert there.pace(crew(4, 4), 100.0) == truth.pace(crew(4, 4), 100.0)
    told = truth.outlook(100.0)
    assert pickle.loads(pickle.dumps(told)) == told == there.outlook(100.0)
    assert hash(told) == hash(there.outlook(100.0))


def test_bad_tables_are_refused_in_one_line(tables: dict[str, T4Model], tmp_path: Path) -> None:
    with pytest.raises(TableError, match="has none of the folders"):
        read_tables(tmp_path)
    missing = tmp_path / "w.csv"
    missing.write_text("name,time\nx,1\n")
    with pytest.raises(TableError, match="has no column 'application'"):
        list(read_workload(missing, tables))
    missing.write_text("name,time,application,num_replicas,batch_size\nx,1,resnet,1,8\n")
    with pytest.raises(TableError, match="line 2: no tables of 'resnet'"):
        list(read_workload(missing, tables))
    with pytest.raises(TableError, match="cannot be read"):
        list(read_workload(tmp_path / "none.csv", tables))


def test_a_setting_outside_the_tables_is_refused(bert: T4Model) -> None:
    with pytest.raises(TableError, match="not measured on a placement like"):
        bert.step((8, 8, 8), 288)


def test_between_scattered_points_a_plane_is_found_again() -> None:
    # Any linear function is its own linear interpolation.
    points = np.array([[x, y, z] for x in (0, 1, 3) for y in (0, 2) for z in (0, 1, 5)], dtype=float)
    values = np.stack([1 + points @ [2.0, -1.0, 0.5], points @ [0.0, 0.0, 1.0]], axis=1)
    found = Interpolation(points, values).along(2.0, 1.5, np.array([0.0, 0.4, 3.0, 5.0]))
    assert found[:, 0] == pytest.approx([3.5, 3.7, 5.0, 6.0])
    assert found[:, 1] == pytest.approx([0.0, 0.4, 3.0, 5.0])


def test_outside_all_points_there_is_no_number() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    between = Interpolation(points, np.ones((4, 1)))
    assert np.isnan(between.along(0.5, 0.5, np.array([0.5]))).all()
    assert np.isnan(between.along(2.0, 0.5, np.array([0.5]))).all()
