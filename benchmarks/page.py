"""The dashboard in Chromium, with few jobs and devices and with many: first paint, frames, weight.

rows     ms from the request of the page until the first job is drawn
cells    the same of the devices on the page Cluster
change   ms from the answer to a submission until the job is on the page, the worst of five
scroll   frames in 3 s while the middle of the queue is scrolled, 2,000 px/s
point    frames in 3 s while the mouse goes over the devices

Real daemons on virtual devices; most jobs wait for another (`after`). Frames are compared with those of
the small case on the same machine: what the page itself costs shows, not the machine. Needs `make page`
and `make browser`. Prints a table, then one line per target.
"""

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the browser's tab is the tests'

from tests.live.daemons import Daemon  # noqa: E402
from tests.web.conftest import FLAGS  # noqa: E402
from tests.web.tab import Tab  # noqa: E402

from muster.api.page.files import BUILT  # noqa: E402
from support.bars import bar, print_table  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

FRAMES = (HERE / "support/browser_frames.js").read_text(encoding="utf-8")
SHOWN, BRIEFLY = 3_000, 1_500
"""ms in which frames are counted, and with --quick."""
TOGETHER = 1_000
"""Jobs of one request."""
SEEN = "(wanted) => document.querySelector(wanted) && performance.now()"
"""ms since the page was asked for, once something is on it."""
DRAWN = (
    "() => { const c = document.querySelector('canvas');"
    " return c && c.height > 10 && c.getContext('2d').getImageData(8, 24, 200, 40).data.some(Boolean)"
    " && performance.now(); }"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one case costs."""

    rows: float
    cells: float
    change: float
    scroll: int
    point: int


CLUSTER = """
name: wide
configurations:
  wide8: {{device: A100, devices: 8, device_memory: 80GB, cores: 256, memory: 2TB, nic: 100Gbit/s}}
nodes:
{nodes}
"""


def cluster_file(folder: Path, nodes: int) -> Path:
    """A cluster of nodes with eight devices each, 64 in a rack."""
    racks = (
        f"  r{at}n[1-{min(64, nodes)}]: {{configuration: wide8, rack: r{at}}}" for at in _racks(nodes)
    )
    path = folder / "cluster.yaml"
    path.write_text(CLUSTER.format(nodes="\n".join(racks)), encoding="utf-8")
    return path


def _racks(nodes: int) -> range:
    return range(max(1, nodes // 64))


@contextmanager
def filled(nodes: int, jobs: int, running: int) -> "Iterator[Daemon]":
    """A daemon with this many jobs; some hold half a node each, the others wait for one."""
    folder = Path(tempfile.mkdtemp(prefix="muster-page-"))
    file = cluster_file(folder, nodes)
    daemon = Daemon(folder, "--simulate-devices", devices=8 * nodes, cluster=file)
    try:
        daemon.start()
        for number in range(running):
            daemon.sh("sleep 3600", name=f"holds-{number}", devices=4)
        daemon.await_status("holds-0", "running")
        for first in range(0, jobs - running, TOGETHER):
            names = range(first, min(first + TOGETHER, jobs - running))
            waits = {"command": "true", "after": "holds-0"}
            daemon.client.submit_all({"jobs": {f"waits-{name}": waits for name in names}})
        yield daemon
    finally:
        daemon.end()
        shutil.rmtree(folder, ignore_errors=True)


def measured(browser: "Browser", daemon: Daemon, shown: int) -> Figures:
    """Look at a daemon as a person does."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = Tab(context, daemon.url)
    page = tab.log_in(daemon.token)
    page.wait_for_function(SEEN, arg=".row a")
    tab.go("/")
    rows = page.wait_for_function(SEEN, arg=".row a").json_value()
    change = max(_changed(tab, daemon, number) for number in range(5))
    scroll, _ = page.evaluate(FRAMES, ["scroll", shown])
    tab.go("/cluster")
    cells = page.wait_for_function(DRAWN).json_value()
    point, _ = page.evaluate(FRAMES, ["point", shown])
    assert not tab.errors, tab.errors
    context.close()
    return Figures(rows, cells, change, scroll, point)


def _changed(tab: Tab, daemon: Daemon, number: int) -> float:
    """ms until a new job is on the page."""
    daemon.sh("sleep 3600", name=f"new-{number}", devices=4)
    begun = time.perf_counter()
    tab.page.get_by_role("link", name=f"new-{number}", exact=True).wait_for()
    return 1000 * (time.perf_counter() - begun)


def weight() -> float:
    """kB of all files that a browser loads, compressed."""
    return sum(path.stat().st_size for path in BUILT.rglob("*.gz")) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 jobs and 1,024 devices")
    quick = parser.parse_args().quick
    cases = {"small": (2, 100), "large": (128, 1_000) if quick else (2048, 10_000)}
    from playwright.sync_api import sync_playwright

    found: dict[str, Figures] = {}
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, (nodes, jobs) in cases.items():
            with filled(nodes, jobs, running=2) as daemon:
                found[name] = measured(browser, daemon, BRIEFLY if quick else SHOWN)
        browser.close()
    rows = [
        (name, f"{f.rows:.0f}", f"{f.cells:.0f}", f"{f.change:.0f}", str(f.scroll), str(f.point))
        for name, f in found.items()
    ]
    print_table("case rows cells change scroll point", rows)
    small, large = found["small"], found["large"]
    bar("rows of many jobs, ms", large.rows, 1500)
    bar("cells of many devices, ms", large.cells, 1500)
    bar("a change on the page, ms", large.change, 1000)
    bar("frames while scrolling, many to few", large.scroll / small.scroll, 0.8, above=True)
    bar("frames while pointing, many to few", large.point / small.point, 0.8, above=True)
    bar("weight of the page, kB compressed", weight(), 500)


if __name__ == "__main__":
    main()
