"""The command: write the shipped profiles, or check that they are as computed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.profiles.shipped import SHIPPED, profile

from muster.files.profile.profile_file import profile_text

FOLDER = Path(__file__).parents[2] / "src/muster/files/profiles"
HEAD = "# Made by `python -m tools.profiles`: do not edit. Fields: docs/reference/profiles.md\n"


def stale(folder: Path) -> dict[Path, str | None]:
    """The files that are not as they should be, and what they should be; None: not there."""
    wanted = {folder / f"{name}.yaml": HEAD + profile_text(profile(name)) for name in SHIPPED}
    found = {path: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    return {path: wanted.get(path) for path in wanted | found if wanted.get(path) != found.get(path)}


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Renew the files; with `--check` change nothing and return 1 when one is stale."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.profiles",
        description=f"Compute the model profiles Muster ships: {', '.join(SHIPPED)}.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    files = stale(folder)
    for path, text in files.items():
        print(f"{path.name}: {'stale, run python -m tools.profiles' if check else 'renewed'}")
        if not check:
            _write(path, text)
    return 1 if check and files else 0


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
