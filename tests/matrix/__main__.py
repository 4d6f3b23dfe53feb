"""Run the matrix and write its page: `python -m tests.matrix`; a cell that differs fails it.

--only WORDS runs the features whose titles hold them, and leaves the other rows as they are.
"""

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.matrix.cells import EVENTS, Cell, run_cell
from tests.matrix.features import features
from tests.matrix.page import PAGE, written


def main() -> int:
    """Run what the command line asks for; 1 if a cell is not as its feature says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="features whose titles hold these words")
    options = parser.parse_args()
    cells: list[Cell] = []
    for title, feature in features().items():
        if options.only not in title:
            continue
        if feature.needs and not find_spec(feature.needs):
            print(f"left as it is: {title} needs {feature.needs}")
            continue
        for event in EVENTS:
            with tempfile.TemporaryDirectory(prefix="muster-matrix-") as folder:
                cells.append(run_cell(feature, event, Path(folder)))
            cell = cells[-1]
            mark = "ok   " if cell.good else "WRONG"
            print(f"{mark} {title:55} {event:7} {cell.verdict}: {cell.detail}", flush=True)
    bad = [cell for cell in cells if not cell.good]
    print(f"{len(cells)} cells, {len(bad)} wrong")
    good = [cell for cell in cells if cell.feature not in {one.feature for one in bad}]
    PAGE.write_text(written(good, PAGE.read_text() if PAGE.is_file() else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
