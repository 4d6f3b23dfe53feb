"""A benchmark of several parts, each a command: run them in turn, and repeat all their targets."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def run_parts(name: str, about: str | None, parts: Sequence[str], quick: Sequence[str]) -> None:
    """The command `<name>.py`: its parts are `<name>_<part>.py`, and `quick` those of --quick."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(quick)}, shortened")
    parser.add_argument(
        "--only", choices=parts, action="append", help="only these parts; may be repeated"
    )
    arguments = parser.parse_args()
    chosen = arguments.only or (quick if arguments.quick else parts)
    bars = [bar for part in chosen for bar in _run(name, part, quick=arguments.quick)]
    print("== all targets")
    print("\n".join(bars))


def _run(name: str, part: str, *, quick: bool) -> list[str]:
    """Run a part, show what it prints as it comes, and keep its targets."""
    command = [sys.executable, str(HERE / f"{name}_{part}.py"), *(["--quick"] if quick else [])]
    print(f"== {part}: {' '.join(Path(word).name for word in command[1:])}", flush=True)
    bars = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("bar: "):
                bars.append(line.rstrip())
    print(flush=True)
    return bars if process.returncode == 0 else [*bars, f"bar: {part}-ran 0 >=1 short"]
