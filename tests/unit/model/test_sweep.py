"""Members of a sweep: their values, names and jobs."""

from dataclasses import replace

import pytest

from muster.model.job import Program
from muster.model.placeholders import filled, names_in
from muster.model.sweep import Axis, Sweep, member_job
from tests.builders import job

LR = Axis("lr", ("0.1", "0.01"))
SEED = Axis("seed", (), 1, 4, whole=True)


def a_sweep(*axes: Axis, program: Program | None = None, samples: int = 0) -> Sweep:
    command = ("python", "train.py", "--lr={lr}", "{index}")
    template = replace(job("search", 1), command=command, program=program or Program())
    return Sweep(40, template, axes, samples)


def test_a_grid_has_every_combination_the_first_parameter_slowest() -> None:
    sweep = a_sweep(LR, SEED)
    assert sweep.size == 8
    assert [tuple(sweep.params(place).values()) for place in range(8)] == [
        (lr, seed) for lr in ("0.1", "0.01") for seed in "1234"
    ]


def test_draws_are_the_same_for_a_seed_and_stay_in_their_range() -> None:
    wide = Axis("lr", (), 1e-5, 1e-1, log=True)
    sweep = a_sweep(wide, SEED, Axis("width", (), 16, 256, whole=True, log=True), samples=300)
    drawn = [sweep.params(place) for place in range(300)]
    assert drawn == [sweep.params(place) for place in range(300)]
    assert drawn != [replace(sweep, seed=1).params(place) for place in range(300)]
    assert all(1e-5 <= float(each["lr"]) <= 1e-1 for each in drawn)
    assert {each["seed"] for each in drawn} == set("1234")
    assert all(16 <= int(each["width"]) <= 256 for each in drawn)
    below = sum(float(each["lr"]) < 1e-3 for each in drawn)
    assert 120 < below < 180  # half of the decades, half of the draws


def test_a_members_job_has_its_values_its_name_and_its_number() -> None:
    environ = (("RATE", "{lr}"), ("HOME_OF", "${HOME} {{lr}}"))
    made = member_job(a_sweep(LR, SEED, program=Program(environ=environ)), 5)
    assert made.command == ("python", "train.py", "--lr=0.01", "5")
    assert (made.name, made.number) == ("search.5", 46)
    assert dict(made.program.environ) == {"RATE": "0.01", "HOME_OF": "${HOME} {lr}"}
    assert made.sweep is not None
    assert made.sweep.params == (("lr", "0.01"), ("seed", "2"))


def test_no_two_members_write_to_one_checkpoint() -> None:
    shared = a_sweep(LR, program=Program(checkpoint="s3://b/x"))
    assert [member_job(shared, place).program.checkpoint for place in (0, 1)] == [
        "s3://b/x/search.0",
        "s3://b/x/search.1",
    ]
    own = a_sweep(LR, program=Program(checkpoint="s3://b/{lr}"))
    assert member_job(own, 1).program.checkpoint == "s3://b/0.01"


def test_members_of_an_array_are_called_by_their_index() -> None:
    sweep = a_sweep(Axis("index", ("5", "7", "9")))
    assert [sweep.member_name(place) for place in range(3)] == ["search.5", "search.7", "search.9"]
    assert sweep.position_of("7") == 1
    assert sweep.position_of("6") is None
    assert member_job(sweep, 2).command[-1] == "9"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("--lr {lr}", "--lr 0.1"),
        ("{lr}{lr}", "0.10.1"),
        ("{{lr}}", "{lr}"),
        ("${lr}", "${lr}"),
        ('{"lr": {"b": 1}}', '{"lr": {"b": 1}}'),
        ("{1..4} {} {a b}", "{1..4} {} {a b}"),
    ],
)
def test_only_names_in_single_braces_are_placeholders(text: str, becomes: str) -> None:
    assert filled(text, {"lr": "0.1"}) == becomes
    assert set(names_in(text)) <= {"lr"}
