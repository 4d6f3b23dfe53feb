"""A browser, a daemon for it to look at, and a word on what is missing."""

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from muster.api.page.files import BUILT
from tests.live.conftest import make
from tests.live.daemons import Daemon

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.tab import Tab

__all__ = ["make"]

CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
"""As root, and on a network without its maker: no sandbox, and no calls home."""

HOLD = "while [ ! -e go ]; do sleep 0.05; done"
"""A line of shell that runs until the job's folder has a file `go`."""

OpenTab = Callable[..., "Tab"]


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium, or a word on what is missing.

    Of one module: Playwright keeps an event loop running, in which no other test could run its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: make browser")
    if CHROMIUM is None:
        pytest.skip("no Chromium: make browser")
    if not (BUILT / "index.html").is_file():
        pytest.skip("the dashboard is not built: make page")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def _shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("shown"))
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.end()


@pytest.fixture
def daemon(_shown: Daemon) -> Iterator[Daemon]:
    """One that the tests of the dashboard share."""
    yield _shown
    _shown.clear()


@pytest.fixture
def open_tab(browser: "Browser") -> Iterator[OpenTab]:
    """Opens tabs of browsers, each as new as on its first day."""
    from tests.web.tab import Tab

    contexts = []

    def one(daemon: Daemon, **how: Any) -> Tab:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **how})
        contexts.append(context)
        return Tab(context, daemon.url)

    yield one
    for context in contexts:
        context.close()
