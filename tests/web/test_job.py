"""The view of a job: its story, what would help, and its files."""

from pathlib import Path

from playwright.sync_api import expect

from tests.live.daemons import Daemon
from tests.web.conftest import HOLD, OpenTab


def test_a_waiting_job_is_told_what_would_start_it(daemon: Daemon, open_tab: OpenTab) -> None:
    daemon.sh(HOLD, name="holds", devices=3)
    daemon.await_status("holds", "running")
    asks = daemon.sh(HOLD, name="asks", devices=4)
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token, f"/jobs/{asks.number}")
    story = page.get_by_role("region", name="Story")
    expect(story.get_by_role("listitem").first).to_contain_text("submitted")
    expect(story).to_contain_text("has waited")
    story.get_by_role("button", name="What would start it?").click()
    expect(story.get_by_label("What would help")).to_contain_text(f"muster resize {asks.number} 1")
    tab.check()
    story.get_by_role("button", name="Do it: workers 1").click()
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    assert daemon.record("asks").workers == 1


def test_files_are_listed_and_downloaded(daemon: Daemon, open_tab: OpenTab) -> None:
    name = "<b>weights.bin"
    line = f"mkdir -p out; printf hello > 'out/{name}'; ln -sf /etc/passwd out/way-out; {HOLD}"
    job = daemon.sh(line, name="writes")
    daemon.await_status("writes", "running")
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token, f"/jobs/{job.number}")
    files = page.get_by_role("region", name="Files")
    files.get_by_role("button", name="Show files").click()
    files.get_by_role("button", name="out/").click()
    expect(files.get_by_role("row", name="weights.bin")).to_contain_text("5 B")
    expect(files.get_by_role("button", name="way-out")).to_have_count(0)
    with page.expect_download() as saved:
        files.get_by_role("button", name="weights.bin").click()
    assert Path(saved.value.path()).read_text(encoding="utf-8") == "hello"
    tab.check()


def test_a_long_variable_does_not_run_into_its_value(daemon: Daemon, open_tab: OpenTab) -> None:
    name = "A_VARIABLE_WITH_A_NAME_THAT_IS_LONG"
    job = daemon.sh(HOLD, name="varies", env={name: "0.02"})
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token, f"/jobs/{job.number}")
    term = page.locator("dt").filter(has_text=name)
    expect(term).to_be_visible()
    assert term.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_what_is_not_there_leads_to_what_is(daemon: Daemon, open_tab: OpenTab) -> None:
    page = open_tab(daemon).log_in(daemon.token, "/jobs/999999")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    page.get_by_role("link", name="All your jobs").click()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    page.goto(f"{daemon.url}/sweeps/999999")
    page.get_by_role("link", name="All your sweeps").click()
    expect(page.get_by_role("heading", name="Sweeps", exact=True)).to_be_visible()
