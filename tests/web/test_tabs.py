"""Many tabs of one browser: a browser has six connections to an address, and all tabs share them."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.live.daemons import Daemon
from tests.web.conftest import HOLD, OpenTab

pytestmark = pytest.mark.slow

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""What a browser does when another tab is looked at; without a screen it never does."""
MANY = 8


def test_tabs_in_the_background_leave_room_for_others(daemon: Daemon, open_tab: OpenTab) -> None:
    job = daemon.sh(f"echo first; {HOLD}; echo second", name="talks")
    daemon.await_status("talks", "running")
    tab = open_tab(daemon)
    first = tab.log_in(daemon.token, f"/jobs/{job.number}")
    expect(log(first)).to_contain_text("first")
    first.evaluate(HIDE, True)
    for _ in range(MANY):
        other = tab.another()
        expect(other.get_by_text("live", exact=True)).to_be_visible()
        other.evaluate(HIDE, True)
    (daemon.work("talks") / "go").touch()
    daemon.await_status("talks", "succeeded")
    first.evaluate(HIDE, False)
    expect(first.get_by_text("succeeded", exact=True).first).to_be_visible()
    expect(log(first)).to_contain_text("second")
    assert log(first).inner_text().count("first") == 1  # read on from where it was
    tab.check()


def test_the_address_of_muster_open_works_in_a_tab_that_has_the_page(
    daemon: Daemon, open_tab: OpenTab
) -> None:
    tab = open_tab(daemon)
    page = tab.go()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    link = daemon.muster("open", "-n").stdout.strip().removeprefix(daemon.url)
    tab.go(link)
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()
    tab.go(link)  # used up; who is logged in stays so
    page.reload()
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()
    assert "login" not in page.url


def log(page: Page) -> Locator:
    return page.get_by_label("Log", exact=True)
