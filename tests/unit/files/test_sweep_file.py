"""Sweeps as users write them, and what they are told of mistakes."""

from typing import Any

import pytest

from muster.files.job.axes import parse_array, parse_asha
from muster.files.job.sweep_file import sweep_in
from muster.files.source.faults import FaultsError


def a_record(sweep: Any, command: Any = "python train.py --lr {lr}") -> dict[str, Any]:
    return {"name": "search", "command": command, "sweep": sweep}


def test_a_sweep_is_read_as_written() -> None:
    over = {"lr": [0.1, 1e-5], "seed": "1..4", "opt": "adam,sgd"}
    asha = {"metric": "accuracy", "mode": "max", "rung": 2, "eta": 4}
    sweep = sweep_in(a_record({"over": over, "at_most": 3, "asha": asha}))
    assert sweep.size == 16
    assert sweep.at_most == 3
    assert sweep.params(0) == {"lr": "0.1", "seed": "1", "opt": "adam"}
    assert sweep.params(15) == {"lr": "0.00001", "seed": "4", "opt": "sgd"}
    assert sweep.asha is not None
    assert (sweep.asha.metric, sweep.asha.largest) == ("accuracy", True)
    assert [sweep.asha.epochs(rung) for rung in range(3)] == [2, 8, 32]


def test_a_bare_word_is_the_metric_of_early_stopping() -> None:
    sweep = sweep_in(a_record({"over": {"lr": "1e-5..1e-1:log"}, "samples": 20, "asha": "loss"}))
    assert sweep.size == 20
    assert sweep.asha is not None
    assert sweep.asha.metric == "loss"


@pytest.mark.parametrize(
    ("sweep", "field", "said"),
    [
        ({"over": {"lr": "0.1..0.5"}}, "sweep.over.lr", "add samples (--samples 20)"),
        ({"over": {"lr": "5..1"}}, "sweep.over", "lr '5..1' does not rise"),
        ({"over": {"lr": "0..1:log"}}, "sweep.over", "a logarithm needs a range above 0"),
        ({"over": {"lr": "0.1,0.1"}}, "sweep.over", "lr '0.1' is given twice"),
        ({"over": {"lr": "0.1,"}}, "sweep.over", "has an empty value"),
        ({"over": {"size": "1,2"}}, "sweep.over", "'size' cannot be the name of a parameter"),
        ({"over": {"lr": "1..200", "s": "1..100"}}, "sweep", "20,000 members, at most 10,000"),
        ({"samples": 3}, "sweep", "needs either over or array"),
        ({"array": "0-3", "samples": 3}, "sweep.samples", "conflicts with array"),
        ({"array": "3-0"}, "sweep.array", "'3-0' is not a range"),
        ({"over": {"lr": "1,2"}, "asha": {"eta": 1}}, "sweep.asha.eta", "2"),
        ({"over": {"lr": "1,2"}, "ahsa": "loss"}, "sweep.ahsa", "asha"),
        ({"over": {"rl": "1,2"}}, "command", "{lr} is none of the sweep's parameters, rl, index"),
    ],
)
def test_a_mistake_is_told_at_its_field(sweep: Any, field: str, said: str) -> None:
    with pytest.raises(FaultsError) as raised:
        sweep_in(a_record(sweep))
    assert [(fault.field, said in fault.text) for fault in raised.value.faults] == [(field, True)]


def test_an_array_is_written_as_for_slurm() -> None:
    axis, at_most = parse_array("0-6:3,9%2")
    assert axis.values == ("0", "3", "6", "9")
    assert at_most == 2
    sweep = sweep_in(a_record({"array": "0-15%4"}, "python train.py {index}"))
    assert (sweep.size, sweep.at_most) == (16, 4)


def test_early_stopping_is_written_in_one_word_with_commas() -> None:
    assert parse_asha("metric=loss,min,rung=1,eta=3") == {
        "metric": "loss",
        "mode": "min",
        "rung": "1",
        "eta": "3",
    }
    assert parse_asha("accuracy,max") == {"metric": "accuracy", "mode": "max"}
    with pytest.raises(ValueError, match="'etta=3' is no part of it"):
        parse_asha("loss,etta=3")
