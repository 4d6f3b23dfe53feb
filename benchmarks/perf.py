"""Every target of the performance models and the planner, part by part.

xiao         Xiao's measurements from one cluster file, without a fit
compute      how long devices compute, against published and measured figures
t4           the T4 cluster's measured steps, from eight samples (needs ../shared/data)
transfers    real steps over shaped links in network namespaces (needs root, iproute2 and torch)
plans        chosen plans against exhaustive search; cost of a question and of a plan
convergence  epochs left, on recorded loss curves

Each part is a command of its own, `benchmarks/perf_<part>.py`; this one runs them in turn, shows what
they print, and repeats all their targets at the end. A part that cannot run here counts as `short`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("xiao", "compute", "t4", "transfers", "plans", "convergence")
QUICK = ("xiao", "compute", "t4", "convergence")
"""Those whose quick runs fit into half a minute together; the others have a quick run of their own."""


def run(part: str, *, quick: bool) -> list[str]:
    """Run a part, show what it prints as it comes, and keep its targets."""
    command = [sys.executable, str(HERE / f"perf_{part}.py"), *(["--quick"] if quick else [])]
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


def main() -> None:
    """Run the parts, then print every target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}, shortened")
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="these parts, however often given"
    )
    arguments = parser.parse_args()
    parts = arguments.only or (QUICK if arguments.quick else PARTS)
    bars = [bar for part in parts for bar in run(part, quick=arguments.quick)]
    print("== all targets")
    print("\n".join(bars))


if __name__ == "__main__":
    main()
