"""The link check finds what leads nowhere, and nothing else."""

from pathlib import Path

from tools.links import broken_links


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_good_links_are_passed_over(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "README.md": "[a](docs/a.md#two-words-here) ![i](docs/i.svg) [site](https://example.org/x#y)",
            "docs/a.md": "# Two *words* `here`\n\n[up](../README.md), [here](#two-words-here)\n",
            "docs/i.svg": "",
            "src/x.py": '"""See docs/a.md."""\n',
        },
    )
    assert broken_links(root) == []


def test_a_link_in_a_table_or_a_code_block_counts_only_in_the_table(tmp_path: Path) -> None:
    table = "| a |\n|---|\n| [x](gone.md) |\n"
    root = tree(tmp_path, {"docs/a.md": f"{table}\n```\n[y](gone.md)\n```\n"})
    assert broken_links(root) == ["docs/a.md:3: gone.md: no such file"]


def test_missing_files_headings_and_mentioned_pages_are_found_with_their_lines(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "CONTRIBUTING.md": "one\n\n[gone](docs/gone.md)\n",
            "docs/a.md": "# A\n\n[no heading](#b)\n",
            "src/x.py": "\n# see docs/old.md\n",
        },
    )
    assert broken_links(root) == [
        "CONTRIBUTING.md:3: docs/gone.md: no such file",
        "docs/a.md:3: #b: no heading #b",
        "src/x.py:2: docs/old.md: no such page",
    ]
