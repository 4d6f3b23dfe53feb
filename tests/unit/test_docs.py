"""Generated pages are what the code says."""

import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from docs.generate import BEGIN, HERE, PAGES, main, plans

from muster.core.state.lifecycle import NEXT
from muster.daemon.gang.transitions import Goal
from muster.model.reason import SENTENCES, Code, Reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in PAGES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(HERE / name, tmp_path / name)
    return tmp_path


def test_no_generated_page_is_stale() -> None:
    assert main(["--check"]) == 0, "run `make docs`"


def test_stale_pages_are_found_and_renewed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([], folder)
    good = {name: (folder / name).read_text(encoding="utf-8") for name in PAGES}
    bad = {name: text.replace(BEGIN, f"{BEGIN}\n\nsomething old") for name, text in good.items()}
    for name, text in bad.items():
        (folder / name).write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert main(["--check"], folder) == 1
    told = capsys.readouterr().out
    assert all(f"{Path(name).name}: stale" in told for name in PAGES)
    assert {name: (folder / name).read_text(encoding="utf-8") for name in PAGES} == bad
    assert main([], folder) == 0
    assert {name: (folder / name).read_text(encoding="utf-8") for name in PAGES} == good


def test_a_page_without_its_markers_is_an_error(folder: Path) -> None:
    (folder / "reference/reasons.md").write_text("# Reasons\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"reasons\.md"):
        main(["--check"], folder)


def test_the_page_shows_every_transition() -> None:
    lines = (HERE / "reference/lifecycle.md").read_text(encoding="utf-8").splitlines()
    for (phase, event), after in NEXT.items():
        rows = [
            line for line in lines if line.startswith(f"| {phase} |") and line.endswith(f"| {after} |")
        ]
        assert len(rows) == 1
        assert f"`{event.__name__}`" in rows[0]


def test_every_goal_of_a_gang_is_explained() -> None:
    page = (HERE / "reference/gang.md").read_text(encoding="utf-8").partition("<!--")[0]
    for goal in Goal:
        assert f"\n| `{goal}` |" in page


def test_the_how_to_shows_what_muster_plan_prints() -> None:
    command = "muster plan examples/clusters/dike-30.yaml examples/plans/resnet50.yaml"
    page = (HERE / "how-to/plan.md").read_text(encoding="utf-8")
    _, found, printed = page.partition(f"$ {command}\n")
    assert found
    assert printed.partition("```")[0] in plans() + "\n"


def test_every_code_has_its_sentence() -> None:
    assert set(SENTENCES) == set(Code)


def test_every_figure_of_a_reason_is_explained() -> None:
    page = (HERE / "reference/reasons.md").read_text(encoding="utf-8")
    for figure in fields(Reason):
        assert figure.name == "code" or f"`{figure.name}`" in page


def test_every_way_of_waiting_has_its_place_in_the_order() -> None:
    page = (HERE / "reference/reasons.md").read_text(encoding="utf-8")
    waits = [code.partition(".")[2] for code in Code if code.startswith("waiting.")]
    order = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\d\. .*$", page, re.MULTILINE)))
    assert sorted(order) == sorted(waits)


def test_the_map_of_the_code_names_every_package() -> None:
    page = (HERE / "explanation/architecture.md").read_text(encoding="utf-8")
    _, _, shown = page.partition("src/muster/\n")
    source = HERE.parent / "src/muster"
    for init in source.glob("*/**/__init__.py"):
        folder = init.parent.relative_to(source)
        if len(folder.parts) <= 2:
            assert re.search(rf"\b{folder.name}/", shown.partition("```")[0]), folder
