"""A class name means one thing: no two public classes of Muster share one."""

import ast
from collections import defaultdict
from pathlib import Path

import muster

SOURCE = Path(muster.__file__).parent


def test_no_public_class_name_is_used_twice() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
