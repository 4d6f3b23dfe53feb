"""`muster forecast`: epochs left, what was noticed, and what cannot be said."""

import json
from pathlib import Path

import pytest

from muster.files.errors import InputError
from tests.unit.cli.invoke import invoke

CURVES = Path(__file__).parents[3] / "examples/training/curves"


def printed(*arguments: str | Path) -> str:
    """What the command prints."""
    result = invoke(["forecast", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def losses(folder: Path, *lines: str) -> Path:
    """A file of these lines."""
    path = folder / "losses.csv"
    path.write_text("\n".join(["epoch,loss", *lines, ""]), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    """The one line that says what is wrong."""
    result = invoke(["forecast", str(path)])
    assert isinstance(result.exception, InputError)
    return str(result.exception)


def test_it_tells_the_epochs_left_and_the_curve(tmp_path: Path) -> None:
    """1/(k + 1): an epoch lowers it by less than 1 % of the largest loss, 1/2, from epoch 14 on."""
    path = losses(tmp_path, *(f"{k},{1 / (k + 1)}" for k in range(1, 9)))
    text = printed(path)
    assert "8 points, loss 0.1111 after epoch 8" in text
    found = json.loads(printed(path, "-o", "json"))["epochs_left"]
    assert found["low"] <= found["mean"] <= found["high"]
    assert 5 <= found["mean"] <= 11
    assert "curve    loss = 0.5 (1 / (" in text


def test_a_fixed_number_of_epochs_is_counted_down() -> None:
    found = json.loads(printed(CURVES / "cnn-digits-adam.csv", "--total", "1000", "-o", "json"))
    assert found["epochs_left"]["low"] == found["epochs_left"]["high"] > 800


def test_too_few_losses_are_unknown(tmp_path: Path) -> None:
    path = losses(tmp_path, "1,2.0", "2,1.5")
    assert "unknown: 2 losses so far" in printed(path)
    assert json.loads(printed(path, "-o", "json"))["unknown"] == "too_few_points"


def test_a_loss_that_is_not_a_number_is_said() -> None:
    assert "not a number since epoch" in printed(CURVES / "linear-diabetes-diverges.csv")


@pytest.mark.parametrize(
    ("lines", "said"),
    [(("1,2.0", "two,1.5"), "losses.csv:3: 'two,1.5' is not"), (("1",), "losses.csv:2: '1' is not")],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    assert said in refused(losses(tmp_path, *lines))


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n", encoding="utf-8")
    assert "the first line must be: epoch,loss" in refused(path)
    assert "cannot be read" in refused(tmp_path / "missing.csv")


def test_a_target_that_is_none_is_refused(tmp_path: Path) -> None:
    path = losses(tmp_path, "1,2.0", "2,1.5")
    result = invoke(["forecast", str(path), "--decrease", "200%"])
    assert "is not a target" in str(result.exception)
