"""The log of a daemon in the background: bounded, and never in the way."""

import subprocess
import sys
from pathlib import Path

SAYS = """
import sys
from pathlib import Path
from muster.app.log_file import LogLines
lines = LogLines(Path(sys.argv[1]), most=2_000, look_every=10)
for number in range(500):
    lines.info(f"line {number:020}")
print("out")
"""


def test_a_log_file_that_grows_too_large_is_replaced_and_the_previous_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    with path.open("ab") as log:
        subprocess.run([sys.executable, "-c", SAYS, str(tmp_path)], stdout=log, stderr=log, check=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1"]
    kept = (tmp_path / "daemon.log.1").read_text() + path.read_text()
    assert "line 00000000000000000499" in kept
    assert path.read_text().endswith("out\n"), "what else it prints goes to the new file as well"
    assert len(kept) < 2 * (2_000 + 10 * 30)


def test_what_is_not_its_file_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    with other.open("ab") as log:
        subprocess.run([sys.executable, "-c", SAYS, str(tmp_path)], stderr=log, check=True)
    assert list(tmp_path.iterdir()) == [other]
    assert len(other.read_text().splitlines()) == 500
