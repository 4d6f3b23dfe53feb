"""Generators as people write them."""

from dataclasses import fields

import pytest

from muster.files.errors import InputError
from muster.sim.trace.draw import Sizes
from muster.sim.trace.generate import GENERATORS, HeavyTail, PhillyLike, PoissonJobs
from muster.sim.trace.spec import PARSERS, parse_spec, written


def test_a_name_alone_has_the_defaults() -> None:
    assert parse_spec("philly-like").parameters == PhillyLike()


def test_parameters_are_read_by_their_kind() -> None:
    parameters = parse_spec("poisson: jobs=50, load=0.9,sizes=1:0.7+8:0.3, mean=1h30m").parameters
    assert parameters == PoissonJobs(jobs=50, load=0.9, sizes=Sizes((1, 8), (0.7, 0.3)), mean=5400.0)
    assert parse_spec("heavy-tail:shortest=10,longest=2d").parameters == HeavyTail(
        shortest=10.0, longest=172_800.0
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("phily-like", "'phily-like' is not a generator (did you mean 'philly-like'?)"),
        ("zzz", "'zzz' is not a generator; choose from: optimus, philly-like"),
        ("poisson:job=5", "'job' is not a parameter of poisson (did you mean 'jobs'?)"),
        ("poisson:swing=0.5", "'swing' is not a parameter of poisson; choose from: capacity, elastic"),
        ("poisson:jobs", "jobs has no value; write for example jobs=1000"),
        ("poisson:jobs=", "jobs has no value"),
        ("poisson:jobs=0", "jobs: must be at least 1, not 0"),
        ("poisson:jobs=many", "jobs: 'many' is not a whole number"),
        ("poisson:load=0", "load: must be above 0"),
        ("poisson:load=nan", "load: must be 0 or more, not 'nan'"),
        ("poisson:jobs=1,jobs=2", "jobs is given twice"),
        ("poisson:load=1,rate=10", "give either rate or load, not both"),
        ("poisson:sizes=1:0", "sizes: '1:0' has no weight above 0"),
        ("poisson:sizes=a", "sizes: 'a' is not a whole number"),
        ("poisson:exponent=2", "exponent: must be from 0 to 1"),
        ("heavy-tail:shortest=2h,longest=1h", "shortest (7200 s) must be below longest (3600 s)"),
        ("optimus:low=0.1", "low (0.1) is above high (0.05)"),
        ("optimus:on=tpu", "on: 'tpu' is not a kind of container"),
        ("diurnal:swing=2", "swing: must be from 0 to 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_spec(text)
    assert problem in str(caught.value)


def test_every_parameter_can_be_written() -> None:
    for generator in GENERATORS.values():
        assert {field.name for field in fields(generator.parameters)} <= PARSERS.keys()


def test_sizes_are_written_as_they_are_read() -> None:
    text = written(PhillyLike().sizes)
    assert text == "1:0.7+2:0.1+4:0.15+8:0.05"
    assert PARSERS["sizes"](text) == PhillyLike().sizes
