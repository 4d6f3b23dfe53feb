"""The pages about the files say what the code does."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from muster.files import load_cluster, load_job, load_profile
from muster.files.cluster.cluster_entries import (
    ClusterEntry,
    ConfigurationEntry,
    LinksEntry,
    MatchEntry,
    NetworkEntry,
    NodeEntry,
    NvlinkEntry,
    PoolEntry,
    RuleEntry,
)
from muster.files.errors import InputError
from muster.files.job.job_entries import JobEntry, LocalityEntry, RoleEntry, RolesEntry, StepEntry
from muster.files.profile.profile_entries import ProfileEntry
from muster.model.profile import LayerType

DOCS = Path(__file__).parents[3] / "docs/reference"
PAGE = (DOCS / "files.md").read_text(encoding="utf-8")
PROFILES = (DOCS / "profiles.md").read_text(encoding="utf-8")
ERRORS = re.findall(r"```yaml\n([^`]*)```\n```text\n([^`]*)```", PAGE + PROFILES)
GOOD = re.findall(r"```yaml\n([^`]*)```\n(?!```text)", PAGE + PROFILES)


def load(path: Path) -> None:
    """Load a file of any kind, told apart by its content."""
    if "configurations:" in path.read_text():
        load_cluster(path)
    elif "tensors:" in path.read_text():
        load_profile(path)
    else:
        load_job(path)


def test_the_page_shows_errors_and_good_files() -> None:
    assert len(ERRORS) >= 3
    assert len(GOOD) >= 4


@pytest.mark.parametrize(("text", "shown"), ERRORS)
def test_an_error_is_printed_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(shown.partition(":")[0])
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == shown.strip()


@pytest.mark.parametrize("text", GOOD)
def test_a_file_of_the_page_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    load(path)


@pytest.mark.parametrize(
    "entry",
    [
        ClusterEntry,
        ConfigurationEntry,
        LinksEntry,
        MatchEntry,
        RuleEntry,
        NetworkEntry,
        NodeEntry,
        NvlinkEntry,
        PoolEntry,
        JobEntry,
        LocalityEntry,
        RoleEntry,
        RolesEntry,
        StepEntry,
    ],
)
def test_every_field_is_on_the_page(entry: type[BaseModel]) -> None:
    for name in entry.model_fields:
        assert re.search(rf"`(?:[a-z]+\.)?{name}`", PAGE), name


def test_every_field_of_a_profile_is_on_its_page() -> None:
    for name in ProfileEntry.model_fields:
        assert f"| `{name}` |" in PROFILES, name
    for kind in LayerType:
        assert f"`{kind}`" in PROFILES, kind
