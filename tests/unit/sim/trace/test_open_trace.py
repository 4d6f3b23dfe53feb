"""One door for every kind of trace."""

from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.sim.trace.open_trace import TraceOptions, open_trace

EXAMPLES = Path(__file__).parents[4] / "examples/traces"


def test_a_generator_by_its_text_and_seed() -> None:
    once = list(open_trace("poisson:jobs=5", TraceOptions(seed=4)))
    assert len(once) == 5
    assert once == list(open_trace("poisson:jobs=5", TraceOptions(seed=4)))
    assert once != list(open_trace("poisson:jobs=5"))


def test_philly_is_known_by_its_header() -> None:
    path = str(EXAMPLES / "philly-extract.csv")
    assert next(open_trace(path)).job.name == "philly-3"
    assert next(open_trace(path, TraceOptions(one_pool=True))).job.pool == "default"


def test_tables_by_their_names(tmp_path: Path) -> None:
    assert next(open_trace(str(EXAMPLES / "small.csv"))).job.name == "night-train"
    assert next(open_trace(str(EXAMPLES / "calendar.jsonl"))).job.name == "morning"
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("submitted,devices,duration\n5,1,1\n2,1,1\n", encoding="utf-8")
    assert [arrival.at for arrival in open_trace(str(mixed), TraceOptions(sort=True))] == [2.0, 5.0]


def test_a_t4_workload_needs_its_speeds(tmp_path: Path) -> None:
    path = tmp_path / "workload.csv"
    path.write_text("name,time,application,num_replicas,batch_size\na,1,ncf,1,64\n", encoding="utf-8")
    with pytest.raises(InputError, match="is a T4 workload; give the folder of its measured speeds"):
        open_trace(str(path))
    with pytest.raises(InputError, match="has none of the folders"):
        list(open_trace(str(path), TraceOptions(speeds=tmp_path)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("none/such.csv", "none/such.csv: no such file"),
        (
            "poison:jobs=5",
            "'poison:jobs=5' is neither a file nor a generator (did you mean 'poisson'?)",
        ),
        ("", "is neither a file nor a generator; generators: optimus"),
    ],
)
def test_what_is_neither_is_said_so(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        list(open_trace(text))
    assert problem in str(caught.value)
