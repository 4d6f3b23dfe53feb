"""Run the matrix and write its page: `python -m tests.matrix`; a cell that differs fails it.

--only WORDS runs the features whose titles hold them, and leaves the other rows as they are.
--device cuda:0 trains on a GPU that all workers share, summing by NCCL, and leaves the page alone.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context

from tests.matrix.cells import EVENTS, Cell, run_alone
from tests.matrix.features import features
from tests.matrix.page import PAGE, written


def main() -> int:
    """Run what the command line asks for; 1 if a cell is not as its feature says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", help="features whose titles hold these words; may be repeated"
    )
    parser.add_argument("--device", default="cpu", help="cpu (the default) or a GPU such as cuda:0")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    options = parser.parse_args()
    chosen = [t for t in features() if not options.only or any(words in t for words in options.only)]
    missing = {t: features()[t].needs for t in chosen if not _is_there(features()[t].needs)}
    for title, package in missing.items():
        print(f"left as it is: {title} needs {package}")
    chosen = [title for title in chosen if title not in missing]
    asked = [(title, event) for title in chosen for event in EVENTS]
    cells: list[Cell] = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for cell in pool.map(partial(run_alone, options.device), asked):
            cells.append(cell)
            mark = "ok   " if cell.good else "WRONG"
            print(f"{mark} {cell.feature:55} {cell.event:7} {cell.verdict}: {cell.detail}", flush=True)
    bad = [cell for cell in cells if not cell.good]
    print(f"{len(cells)} cells, {len(bad)} wrong")
    if options.device == "cpu":
        good = [cell for cell in cells if cell.feature not in {one.feature for one in bad}]
        PAGE.write_text(written(good, PAGE.read_text() if PAGE.is_file() else ""))
    return 1 if bad else 0


def _is_there(package: str) -> bool:
    return not package or find_spec(package) is not None


if __name__ == "__main__":
    sys.exit(main())
