"""The matrix is whole and its page is true: every cell runs with `make matrix`, two of them here."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.matrix.cells import DIFFERENT, FAILED, Cell, plain, run_cell
from tests.matrix.feature import BATCH, CLOSE, EXACT, NOISE, REFUSED, Backward, Parts
from tests.matrix.features import features
from tests.matrix.features.a_plain import Half
from tests.matrix.page import PAGE, written


def rows() -> dict[str, list[str]]:
    """The cells of the page by feature."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    parts = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {part[0]: part[1:3] for part in parts if len(part) == 4}


def test_the_page_has_every_feature() -> None:
    assert set(rows()) - {"feature"} == set(features())


def test_no_cell_of_the_page_is_different() -> None:
    for title, cells in rows().items():
        for cell in cells if title != "feature" else ():
            assert cell.partition(" (")[0] in (EXACT, NOISE, REFUSED), title


def test_there_are_at_least_forty_features() -> None:
    assert len(features()) >= 40


@pytest.mark.parametrize("feature", features().values(), ids=lambda one: one.title)
def test_every_feature_says_what_to_expect(feature: object) -> None:
    found = features()[getattr(feature, "title")]  # noqa: B009
    assert found.verdict in (EXACT, NOISE, REFUSED)
    assert (found.verdict == REFUSED) == bool(found.words)
    assert (found.close > CLOSE) == (found.verdict == NOISE)


def test_a_page_shows_what_was_found() -> None:
    cells = [
        Cell("dropout", "resize", NOISE, "3e-02", True),
        Cell("dropout", "kill", EXACT, "3e-16", True),
    ]
    assert "| dropout | equal within noise (3e-02) | exact (3e-16) | other neurons" in written(cells)


def test_a_result_that_differs_is_not_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = features()["SGD with momentum"]
    real = one.difference
    monkeypatch.setattr(one, "difference", lambda *results: 1e-6 + real(*results), raising=False)
    cell = run_cell(one, "resize", tmp_path)
    assert (cell.verdict, cell.good) == (DIFFERENT, False)


class HalfInShares(Half):
    """Plain torch that sums the gradients of three shares, weighted by their samples or all alike."""

    alike = False

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        x, y = batch
        parts.optimizer.zero_grad()
        for share in (slice(0, 5), slice(5, 10), slice(10, BATCH)):
            losses = self.losses(parts, (x[share], y[share]))
            (losses.mean() / 3 if self.alike else losses.sum() / BATCH).backward()
        parts.optimizer.step()


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("steps", [8, 18, 33])
def test_shares_in_bf16_are_within_its_noise_and_wrong_weights_are_not(
    tmp_path: Path, steps: int, alike: bool
) -> None:
    half, shares = Half(), HalfInShares()
    shares.alike = alike
    noise = half.noise(
        plain(shares, steps, tmp_path), lambda one, seed: plain(one, steps, tmp_path, seed)
    )
    assert (noise <= half.close) == (not alike)


@pytest.mark.parametrize(("missing", "good"), [(7, True), (6, False)])
def test_a_tracker_may_miss_the_step_before_a_kill_and_no_other(missing: int, good: bool) -> None:
    one = features()["TensorBoard"]
    losses = torch.linspace(2.0, 1.0, 12)
    found = {"logged": losses.clone(), "weight": torch.ones(1)}
    expected = {"logged": losses, "weight": torch.ones(1)}
    found["logged"][missing] = torch.nan
    apart = one.difference(one.excused(found, expected, [7]), expected)
    assert (apart <= CLOSE) == good


def test_a_refusal_in_other_words_is_not_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = features()["LBFGS"]
    monkeypatch.setattr(one, "words", "something else", raising=False)
    cell = run_cell(one, "resize", tmp_path)
    assert (cell.verdict, cell.good) == (FAILED, False)
