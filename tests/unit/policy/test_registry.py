"""The registry finds every policy, and policies stand alone."""

import ast
import re
from pathlib import Path

import pytest

from muster.policy.registry import POLICIES, PolicyError

MODULES = {type(policy).__module__ for policy in POLICIES.values()}
FOLDER = Path(__file__).parents[3] / "src/muster/policy"


def imports_of(module: str) -> set[str]:
    """The modules that a module imports."""
    tree = ast.parse((FOLDER.parents[1] / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    plain = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    return plain | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_every_class_that_allocates_is_registered_by_its_name() -> None:
    classes = {type(policy).__name__ for policy in POLICIES.values()}
    for path in FOLDER.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            methods = node.body if isinstance(node, ast.ClassDef) else []
            allocates = any(isinstance(m, ast.FunctionDef) and m.name == "allocate" for m in methods)
            if isinstance(node, ast.ClassDef) and allocates and node.name != "Policy":
                assert node.name in classes, f"{path.name}: {node.name} is not in POLICIES"


def test_policies_do_not_import_each_other() -> None:
    for module in MODULES:
        assert not imports_of(module) & (MODULES - {module}), module


def test_every_policy_is_on_its_page() -> None:
    page = (FOLDER.parents[2] / "docs/explanation/policies.md").read_text(encoding="utf-8")
    for name in POLICIES:
        assert f"`{name}`" in page, name


def test_a_policy_has_its_options_behind_its_name() -> None:
    found = POLICIES.find("muster:makespan=1")
    assert (found.name, getattr(found, "makespan", None)) == ("muster:makespan=1", 1.0)
    assert POLICIES["muster:makespan=1"] == found
    assert list(POLICIES).count("muster") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("must", "no policy named 'must'; policies: afs, afs-p"),
        ("muster:makespan=2", "makespan must be a number from 0 to 1"),
        ("muster:makespan", "makespan must be a number from 0 to 1"),
        ("muster:speed=1", "muster has no option 'speed'; options: makespan"),
        ("fifo:makespan=1", "fifo has no option 'makespan'; options: none"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(problem)):
        POLICIES.find(text)
