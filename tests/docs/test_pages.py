"""What README, the tutorials and the how-tos say to type works, typed in a folder of one's own."""

import pytest

from tests.docs.page import PageError, blocks, script
from tests.docs.reader import ROOT, a_reader

SLOW = {f"docs/{page}.md" for page in ("tutorial/elastic-job", "how-to/elastic-training")}
SLOW |= {f"docs/{page}.md" for page in ("how-to/policies", "how-to/pools", "how-to/ddp")}
SLOW |= {f"docs/{page}.md" for page in ("how-to/python-functions", "how-to/coming-from-slurm")}
SLOW |= {f"docs/{page}.md" for page in ("tutorial/team-day", "how-to/usage", "how-to/pipelines")}
"""Minutes of training and simulation, or jobs by the dozen: `make docs-test`."""
PAGES = ["README.md"] + [
    str(path.relative_to(ROOT))
    for folder in ("tutorial", "how-to")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
]


@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=pytest.mark.slow) if p in SLOW else p for p in PAGES]
)
def test_what_a_page_says_to_type_works(name: str) -> None:
    typed = script(name, (ROOT / name).read_text(encoding="utf-8"))
    with a_reader() as reader:
        done = reader.types(typed)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n--- errors:\n{done.stderr[-3000:]}"


def test_a_block_that_is_not_run_says_why() -> None:
    page = "<!-- not run: it needs a GPU -->\n```sh\nnvidia-smi\n```\n"
    (block,) = blocks(page)
    assert block.why_not == "it needs a GPU"
    assert "nvidia-smi" not in script("page", page)
    for bad in ("<!-- not run -->", "<!-- not run: -->"):
        with pytest.raises(PageError, match="line 1: say why"):
            script("page", f"{bad}\n```sh\nls\n```\n")


def test_a_block_says_what_is_in_it() -> None:
    with pytest.raises(PageError, match="line 3: what is in this block"):
        script("page", "Type:\n\n```\nls\n```\n")


def test_sessions_files_python_and_hidden_lines_are_run() -> None:
    page = """
<!-- run: touch hidden -->
1. First

    ```console
    $ ls \\
        hidden
    hidden
    $ false
    muster: this is refused
    ```

```yaml
# job.yaml
command: a
```
```python
print(open("job.yaml").read())
```
"""
    with a_reader() as reader:
        done = reader.types(script("page", page))
        wrong = reader.types(script("page", page.replace("$ false", "$ true")))
    assert (done.returncode, wrong.returncode) == (0, 1), done.stderr
    assert done.stdout.splitlines()[-3:] == ["# job.yaml", "command: a", ""]
