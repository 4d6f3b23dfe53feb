"""`muster profile`: the list, one model, a file."""

from pathlib import Path

import pytest

from muster.cli.offline.profile import described
from muster.cli.render.table import table
from muster.cli.render.words import size
from muster.files import shipped_profile
from muster.files.errors import InputError
from muster.files.profile.profile_file import profile_schema, profile_text, shipped_profiles
from muster.files.source.validation import schema_text
from tests.unit.cli.invoke import invoke


def printed(*arguments: str) -> str:
    """What the command prints."""
    result = invoke(list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_alone_it_lists_every_shipped_model() -> None:
    heading, *rows = printed("profile").splitlines()
    assert heading.split() == [
        *["NAME", "PARAMETERS", "TENSORS", "GFLOP/SAMPLE", "ACTIVATIONS", "DATASET"]
    ]
    assert tuple(row.split()[0] for row in rows) == shipped_profiles()
    found = next(row for row in rows if row.startswith("resnet50"))
    assert found.split()[1:4] == ["25,557,032", "161", "8.18"]


def test_a_model_is_shown_with_its_largest_tensors_and_when_gradients_are_ready() -> None:
    text = printed("profile", "gpt2-small")
    assert "124,439,808 of 4 B in 148 tensors" in text
    largest = text[text.index("LARGEST TENSOR") :].splitlines()[1]
    assert largest.split() == ["wte.weight", "154.4", "MB", "31.0%", "100.0%"]
    *_, before, after = text.splitlines()
    assert before.split()[:2] == ["90%", "59%"]
    assert after.split() == ["100%", "100%", "#" * 50]


def test_a_file_is_shown_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(shipped_profile("vgg16")).replace("name: vgg16", "name: mine"))
    assert printed("profile", str(path)).startswith("mine\n")


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"^profile: 'resnet5' is not a model \(did you mean 'resnet50'"
    ):
        described("resnet5")


def test_the_schema_of_profile_files_is_printed() -> None:
    assert printed("schema", "profile") == schema_text(profile_schema())


def test_a_table_has_no_borders_and_numbers_stand_to_the_right() -> None:
    assert table(("NAME", "N"), [("a", "1"), ("long-name", "1,000")]) == (
        "NAME           N\na              1\nlong-name  1,000"
    )


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (560, "560 B"), (8192, "8.2 KB"), (13_476_831_232, "13.5 GB")]
)
def test_sizes_are_short(count: int, shown: str) -> None:
    assert size(count) == shown
