"""The queue in a browser: live rows, filters in the address, actions on several jobs, keys."""

import re
import shlex

import pytest
from playwright.sync_api import Route, expect

from tests.live.daemons import Daemon
from tests.web.conftest import HOLD, OpenTab


def test_a_job_appears_runs_and_ends_without_a_reload(daemon: Daemon, open_tab: OpenTab) -> None:
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token)
    daemon.sh(HOLD, name="hello")
    row = page.get_by_role("row", name=re.compile("hello"))
    expect(row.get_by_text("running", exact=True)).to_be_visible()
    page.evaluate("document.body.dataset.kept = 'yes'")
    (daemon.work("hello") / "go").touch()
    expect(row.get_by_text("succeeded", exact=True)).to_be_visible()
    assert page.evaluate("document.body.dataset.kept") == "yes"
    tab.check()


def test_several_jobs_are_changed_and_stopped_together(daemon: Daemon, open_tab: OpenTab) -> None:
    for name in ("one", "two"):
        daemon.sh(HOLD, name=name)
        daemon.await_status(name, "running")
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token, "/?status=running")
    for name in ("one", "two"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Priority…").click()
    page.get_by_label("Higher is sooner").fill("7")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_text("2 jobs have priority 7")).to_be_visible()
    assert daemon.record("one").priority == 7
    for name in ("one", "two"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Stop…").click()
    tab.check()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("No job matches")).to_be_visible()  # the filter still says: running
    assert daemon.await_status("two", "cancelled")


@pytest.mark.slow
def test_a_resize_is_asked_for_in_the_page(daemon: Daemon, open_tab: OpenTab) -> None:
    job = daemon.sh(HOLD, name="grows")
    daemon.await_status("grows", "running")
    page = open_tab(daemon).log_in(daemon.token, f"/jobs/{job.number}")
    page.get_by_role("button", name="Resize…").click()
    page.get_by_label("Most workers").fill("2")
    page.get_by_label("Fewest workers").fill("2")  # the most follow
    page.get_by_role("button", name="Resize", exact=True).click()
    expect(page.get_by_text("2 of 2").first).to_be_visible()
    expect(page.get_by_role("region", name="Workers over time")).to_contain_text("2")


@pytest.mark.slow
def test_filters_and_search_are_in_the_address(daemon: Daemon, open_tab: OpenTab) -> None:
    daemon.sh("true", name="alpha", labels={"team": "vision"}).wait()
    daemon.sh("exit 1", name="beta").wait()
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token)
    rows = page.get_by_role("row").filter(has=page.get_by_role("link"))
    page.get_by_role("button", name=re.compile("^failed")).click()
    expect(page.get_by_role("row", name=re.compile("alpha"))).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("beta"))).to_be_visible()
    assert page.url.endswith("?status=failed")
    page.get_by_role("button", name=re.compile("^failed")).click()
    page.keyboard.press("/")
    page.keyboard.type("al ha label:team=vision")
    expect(page.get_by_role("row", name=re.compile("beta"))).to_have_count(0)
    again = open_tab(daemon).log_in(daemon.token, page.url.removeprefix(daemon.url))
    expect(again.get_by_role("row", name=re.compile("alpha"))).to_be_visible()
    expect(rows).to_have_count(1)


@pytest.mark.slow
def test_keys_walk_select_and_open(daemon: Daemon, open_tab: OpenTab) -> None:
    for name in ("first", "second"):
        daemon.sh("true", name=name).wait()
    page = open_tab(daemon).log_in(daemon.token)
    expect(page.get_by_role("row", name=re.compile("first"))).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_text("1 job selected")).to_be_visible()
    listed = page.get_by_label(re.compile("^Select all"))
    listed.check()
    expect(page.get_by_text(re.compile(r"^\d+ jobs selected"))).to_be_visible()
    listed.uncheck()
    listed.blur()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("second"))).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()


@pytest.mark.slow
def test_the_keyboard_alone_is_enough(daemon: Daemon, open_tab: OpenTab) -> None:
    for name in ("hums", "other"):
        daemon.sh(HOLD, name=name)
        daemon.await_status(name, "running")
    page = open_tab(daemon).go()
    focused = page.locator(":focus")
    expect(focused).to_have_id("token")
    page.keyboard.type(daemon.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="hums")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("hums")
    expect(page.get_by_role("link", name="other")).to_have_count(0)
    page.keyboard.press("Escape")  # leaves the field, and what was searched for
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("hums"))).to_be_visible()
    page.get_by_role("button", name="Stop…").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop…")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Tab")
    expect(focused).to_have_text("Stop")
    page.keyboard.press("Enter")
    expect(page.get_by_text("hums is stopping")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.get_by_role("heading", name="What if")).to_be_visible()


@pytest.mark.slow
def test_a_search_does_not_empty_the_list_while_it_loads(daemon: Daemon, open_tab: OpenTab) -> None:
    daemon.sh("true", name="stays").wait()
    page = open_tab(daemon).log_in(daemon.token)
    row = page.get_by_role("row", name=re.compile("stays"))
    expect(row).to_be_visible()
    held: list[Route] = []
    page.route("**/v1/jobs?*name=*", lambda route: held.append(route))
    with page.expect_request("**/v1/jobs?*name=*"):
        page.get_by_label("Search jobs").fill("stay")
    expect(row).to_be_visible()
    page.unroute("**/v1/jobs?*name=*")  # what was held goes on
    expect(row).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything(daemon: Daemon, open_tab: OpenTab, scheme: str) -> None:
    daemon.sh("true", name=f"pocket-{scheme}").wait()
    tab = open_tab(daemon, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = tab.log_in(daemon.token)
    expect(page.get_by_role("row", name=re.compile(f"pocket-{scheme}"))).to_be_visible()
    paths = [
        "",
        "cluster",
        "pools",
        "timeline",
        "sweeps",
        "what-if",
        "accuracy",
        "admin",
        "admin?part=audit",
    ]
    number = daemon.record(f"pocket-{scheme}").number
    for path in [*(f"/{each}" for each in paths), f"/jobs/{number}"]:
        tab.go(path)
        expect(page.get_by_role("heading").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        tab.check()


@pytest.mark.slow
def test_without_jobs_the_page_teaches_the_first_command(make: object, open_tab: OpenTab) -> None:
    daemon: Daemon = make()  # type: ignore[operator]
    daemon.start()
    page = open_tab(daemon).log_in(daemon.token)
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    hint = page.locator(".empty code").first.inner_text()
    assert daemon.muster(*_words(hint)).returncode == 0
    expect(page.get_by_role("row", name=re.compile("running|succeeded"))).to_be_visible()
    expect(page.get_by_text("No jobs yet")).to_have_count(0)


@pytest.mark.slow
def test_the_pools_page_teaches_commands_that_work(make: object, open_tab: OpenTab) -> None:
    daemon: Daemon = make()  # type: ignore[operator]
    daemon.start()
    page = open_tab(daemon).log_in(daemon.token, "/pools")
    expect(page.get_by_role("heading", name="One pool has everything")).to_be_visible()
    for hint in page.locator(".empty code").all_inner_texts():
        done = daemon.muster(*shlex.split(hint)[1:])
        assert done.returncode == 0, done.stderr
    expect(page.get_by_role("row", name=re.compile("vision"))).to_be_visible()
    expect(page.get_by_role("heading", name="One pool has everything")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "median"), [(1280, True), (1100, True), (800, True), (1280, False)])
def test_when_a_job_ends_is_not_cut_off(
    daemon: Daemon, open_tab: OpenTab, width: int, median: bool
) -> None:
    name = f"ends-{width}-{median}"
    daemon.sh(HOLD, name=name)
    daemon.await_status(name, "running")
    tab = open_tab(daemon, viewport={"width": width, "height": 800})

    def foretold(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        now = found["jobs"][0]["submitted"]
        found["jobs"][0] |= {
            "predicted_finish": now + 6900 if median else None,
            "finish_low": now + 4300,
            "finish_high": now + 166_200,
            "step": 480,
            "steps": 480,
        }
        route.fulfill(response=answer, json=found)

    tab.page.route(re.compile(r"/v1/jobs\?"), foretold)
    page = tab.log_in(daemon.token)
    row = page.get_by_role("row", name=re.compile(name))
    expect(row).to_contain_text("ends in 1 h 5" if median else "ends in 1 h 1")
    expect(row).to_contain_text("to 1 d 22 h")
    wide = row.locator(".when, .when small").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    )
    assert not wide
    boxes = row.locator(".meter > *").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert max(boxes) - min(boxes) < 12, "the percentage is beside its bar"


def _words(line: str) -> list[str]:
    command, *words = shlex.split(line)
    assert command == "muster"
    return [words[0], "-y", *words[1:]]
