"""The programs that the docs show are real: they run, and have as many lines as is said."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from math import log
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
LINES = ROOT / "benchmarks/support/lines"
EXAMPLES = ROOT / "examples/elastic"
PAGE = (ROOT / "docs/how-to/elastic-training.md").read_text(encoding="utf-8")

TINY: dict[str, list[str]] = {
    "cnn": ["--pictures", "200", "--epochs", "1", "--global-batch", "50"],
    "gpt": ["--characters", "8000", "--length", "16", "--epochs", "1", "--global-batch", "100"],
    "wide": ["--words", "500", "--readers", "400", "--global-batch", "100"],
}
LAUNCHED = {
    "cnn": ["--workers", "2"],
    "wide": ["--workers", "1", "--servers", "1", "--sync", "dedicated"],
}
FINAL = re.compile(r"final loss (\d+\.\d+)")


def printed(*command: str | Path) -> str:
    """What a command of Python prints; one thread each, and no setting of this process."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=clean | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a program as `python program.py ...` does, and tells the loss that it prints in the end."""

    def run(program: Path, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(program), *arguments])
        runpy.run_path(str(program), run_name="__main__")
        (loss,) = FINAL.findall(capsys.readouterr().out)
        return str(loss)

    return run


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as it is run."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("runtime_lines")
    monkeypatch.delitem(sys.modules, "runtime_lines")
    return module


@pytest.mark.parametrize("name", TINY)
def test_an_example_runs_alone(name: str, alone: Callable[..., str]) -> None:
    assert float(alone(EXAMPLES / f"{name}.py", *TINY[name])) > 0


@pytest.mark.parametrize("name", LAUNCHED)
def test_an_example_runs_with_others(name: str) -> None:
    out = printed("-m", "muster.runtime", *LAUNCHED[name], EXAMPLES / f"{name}.py", *TINY[name])
    assert len(FINAL.findall(out)) == 1  # one worker speaks for all


def test_the_programs_of_the_comparison_run(alone: Callable[..., str]) -> None:
    plain, loop, declared = (
        alone(LINES / f"{name}.py", "--samples", "512")
        for name in ("plain", "muster_loop", "muster_declared")
    )
    assert loop == declared
    # Not the same batches, but the same training: six steps from log 4.
    assert 0 < float(plain) < log(4)
    assert 0 < float(loop) < log(4)


@pytest.mark.slow
def test_the_ddp_program_runs_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "saved.pt"

    def run(workers: int) -> Any:
        torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}")
        out = printed(*torchrun, LINES / "ddp.py", "--samples", "512", "--checkpoint", path)
        assert len(FINAL.findall(out)) == workers
        return torch.load(path)

    saved = run(workers=2)
    assert saved["epoch"] == 2
    torch.save(saved | {"epoch": 1}, path)  # as if all had died in the last epoch
    again = run(workers=1)
    assert again["epoch"] == 2
    assert not torch.equal(again["model"]["0.weight"], saved["model"]["0.weight"])


def test_only_code_counts(counting: ModuleType) -> None:
    source = (
        '"""A page\nof words."""\n\n# why\nx = f(\n    1,  # one\n)\n\n\n'
        'def g():\n    """Words."""\n    return "a # b"\n'
    )
    assert counting.code_lines(source) == ["x = f(", "1,", ")", "def g():", 'return "a # b"']


def test_a_line_is_changed_where_it_is_much_alike(counting: ModuleType) -> None:
    before = ["import torch", "loss = f(model(x), y)", "loss.backward()", "old = gone()"]
    after = ["import torch", "import muster", "loss = f(model(x), y, each=True)", "loss.backward()"]
    # One import added, the loss changed, the last line removed.
    assert counting.difference(before, after) == counting.Lines(total=4, added=1, changed=1, removed=1)


def test_what_has_nothing_in_common_is_added_and_removed(counting: ModuleType) -> None:
    found = counting.difference(["abc = 1"], ["print(xyz)", "while True:"])
    assert (found.added, found.changed, found.removed) == (2, 0, 1)


def test_the_page_has_the_counts_of_the_benchmark(counting: ModuleType) -> None:
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    said = {name: tuple(map(int, numbers)) for name, *numbers in rows}
    found = counting.counted()
    assert said == {name: (n.total, n.added, n.changed, n.removed) for name, n in found.items()}


def test_the_page_of_hugging_face_has_the_counts_of_the_benchmark(counting: ModuleType) -> None:
    page = (ROOT / "docs/how-to/hugging-face.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    said = {name: tuple(map(int, numbers)) for name, *numbers in rows}
    found = counting.counted(counting.HF_PROGRAMS)
    assert said == {name: (n.total, n.added, n.changed, n.removed) for name, n in found.items()}


def test_a_loop_needs_at_most_five_more_lines(counting: ModuleType) -> None:
    assert counting.counted()["muster_loop"].added <= 5


@pytest.mark.parametrize("name", ["plain", "muster_loop", "muster_declared"])
def test_what_the_page_shows_stands_in_the_program(name: str) -> None:
    _, _, after = PAGE.partition(f"<!-- {name} -->\n```python\n")
    shown = after.partition("```")[0].splitlines()
    program = [line.strip() for line in (LINES / f"{name}.py").read_text(encoding="utf-8").splitlines()]
    assert shown
    first = program.index(shown[0])
    assert [line.strip() for line in shown] == program[first : first + len(shown)]


CASE = (
    r" ?\.\.\.|\d+|\[.*?\]|head\.weight|(?:worker|muster-loader)-\d+|SIGKILL|ctx\.mean\(\)"
    r"|Adam|a tensor of shape|writer|SummaryWriter|\bema\b|does not|the metric has shape"
)
"""Numbers and names of the page's examples."""


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    sources = (each.read_text(encoding="utf-8") for each in (ROOT / "src/muster/runtime").rglob("*.py"))
    # Sentences that go over several lines of code, put together.
    code = re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(sources))
    _, _, table = PAGE.partition("| what | error |")
    messages = re.findall(r"\| `([^|]*)`[^|]*\|$", table.partition("\n\n")[0], re.MULTILINE)
    assert len(messages) > 5
    for message in messages:
        # What stands between the numbers and names of this very case.
        parts = re.split(CASE, message)
        assert all(part in code for part in parts), message
