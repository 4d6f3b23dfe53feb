"""A page that is left open: it outlives its daemon, and is current again when the next one is there."""

import re
import socket

import pytest
from playwright.sync_api import expect

from tests.live.conftest import Make
from tests.web.conftest import OpenTab

pytestmark = pytest.mark.slow


def a_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def test_a_page_reconnects_to_the_next_daemon(make: Make, open_tab: OpenTab) -> None:
    daemon = make("--no-auth", "--port", a_port())
    daemon.start()
    tab = open_tab(daemon)
    page = tab.go()  # without tokens there is nothing to log in to
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    daemon.kill()
    expect(page.get_by_text("reconnecting…")).to_be_visible()
    daemon.start()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    daemon.sh("true", name="afterwards").wait()
    row = page.get_by_role("row", name=re.compile("afterwards"))
    expect(row).to_contain_text("succeeded")
    assert not tab.elsewhere


def test_what_has_not_changed_is_not_drawn_again(make: Make, open_tab: OpenTab) -> None:
    daemon = make("--no-auth", "--port", a_port())
    daemon.start()
    daemon.sh("true", name="quiet").wait()
    page = open_tab(daemon).go()
    expect(page.get_by_role("row", name=re.compile("quiet"))).to_contain_text("succeeded")
    page.evaluate(
        """() => {
          window.redrawn = 0;
          const table = document.querySelector("[role=table]");
          new MutationObserver((seen) => (window.redrawn += seen.length))
            .observe(table, { childList: true, subtree: true, attributes: true });
        }"""
    )
    for _ in range(2):
        with page.expect_response(re.compile("/v1/jobs")) as answered:
            pass
        assert answered.value.ok
    assert page.evaluate("window.redrawn") == 0
