"""Every view against a real daemon with jobs of every kind; the pictures of the docs are made here."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.web.conftest import OpenTab
from tests.web.scene import Scene
from tests.web.tab import Tab

pytestmark = pytest.mark.slow


GROUP = {"covered": 0.75, "early": 0.1, "late": 0.15, "error": 0.2, "bias": -0.05, "width": 2.5}
ACCURACY = {
    "what": "finish",
    "since": 0.0,
    "forecasts": 40,
    "groups": [
        {"by": "all", "name": "all", "forecasts": 40, **GROUP},
        {"by": "made", "name": "submission", "forecasts": 20, **GROUP},
    ],
    "reliability": [{"said": each, "came": each**1.2} for each in (0.1, 0.5, 0.9)],
}


NOW, LAST = 1_000.0, 1_000.0 + 90 * 86_400
"""When it was asked, and where nothing more is played: what never ends is put there."""


def interval(middle: float, high: float | None = None) -> dict[str, float]:
    return {"middle": middle, "low": middle, "high": middle if high is None else high}


def told(
    name: str, number: int, verdict: str, before: float, after: float, high: float = 0
) -> dict[str, Any]:
    finish = {"before_finish": interval(before), "after_finish": interval(after, high or after)}
    change = {"finish_change": interval(after - before, high - before if high else after - before)}
    return (
        {"name": name, "number": number, "user": "ada", "pool": "lab", "verdict": verdict, "basis": 0}
        | finish
        | change
    )


FIGURE = {"before": interval(0.0), "after": interval(0.0), "change": interval(0.0)}
REPORT = {
    "now": NOW,
    "worlds": 16,
    "jobs": [
        told("endless", 1, "same", LAST, LAST),
        told("freed", 2, "earlier", LAST, 2_000.0),
        told("starved", 3, "never", 2_000.0, LAST),
        told("torn", 4, "unclear", 2_000.0, 2_060.0, LAST),
    ],
    "counts": {"same": 1, "earlier": 1, "never": 1, "unclear": 1},
    **dict.fromkeys(("completion", "makespan", "used", "fragmentation"), FIGURE),
}
ANSWER = {"id": "1", "done": 16, "of": 16, "report": REPORT}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    found = Scene(tmp_path_factory.mktemp("scene"))
    try:
        found.play()
        yield found
    finally:
        found.daemon.end()


@pytest.fixture(params=["light", "dark"])
def tab(scene: Scene, open_tab: OpenTab, request: pytest.FixtureRequest) -> Tab:
    found = open_tab(scene.daemon, color_scheme=request.param)
    found.log_in(scene.daemon.token)
    found.keeps = request.param == "light"
    return found


def test_the_queue(scene: Scene, tab: Tab) -> None:
    page = tab.go("/")
    row = page.get_by_role("row", name=re.compile("too-wide"))
    expect(row).to_contain_text("waiting")
    expect(row).to_contain_text("needs 44")  # why it waits
    expect(page.get_by_role("row", name=re.compile("typo"))).to_contain_text("exit code 1")
    tab.check()
    tab.picture("queue")


def test_a_job(scene: Scene, tab: Tab) -> None:
    page = tab.go(f"/jobs/{scene.trains}")
    expect(page.get_by_role("region", name="Curve of loss")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"^loss: \d+ points"))).to_be_visible()
    expect(page.get_by_role("region", name="Workers over time")).to_contain_text("running")
    expect(page.get_by_text("Finishes", exact=True)).to_be_visible()
    expect(page.get_by_label("Log", exact=True)).to_contain_text("epoch 30")
    page.get_by_label("Search the log").fill("epoch 12:")
    expect(page.get_by_label("Log", exact=True)).not_to_contain_text("epoch 30")
    page.get_by_label("Search the log").fill("")
    story = page.get_by_role("region", name="Story")
    expect(story).to_contain_text("started: 1 worker")
    files = page.get_by_role("region", name="Files")
    files.get_by_role("button", name="Show files").click()
    expect(files.get_by_role("button", name="weights-30.json")).to_be_visible()
    tab.check()
    tab.picture("job", down_to=files)


def test_the_cluster(scene: Scene, tab: Tab) -> None:
    page = tab.go("/cluster")
    expect(page.get_by_text("48 devices on 6 nodes")).to_be_visible()
    expect(page.get_by_text("24 reserved by pools")).to_be_visible()
    expect(page.get_by_text(re.compile("right3 draining"))).to_be_visible()
    tab.check()
    tab.picture("cluster")
    canvas = page.locator("canvas")
    canvas.hover(position={"x": 20, "y": 60})
    expect(page.locator(".hint")).to_contain_text("left1")
    canvas.click(position={"x": 20, "y": 60})
    expect(page).to_have_url(re.compile(r"/jobs/\d+|node=left1"))
    tab.go("/cluster")
    page.get_by_label("Find a node").fill("left1")
    expect(page).to_have_url(re.compile("node=left1"))
    expect(page.get_by_role("region", name="Node left1")).to_contain_text("8 A100")
    tab.check()


def test_pools(scene: Scene, tab: Tab) -> None:
    page = tab.go("/pools")
    vision = page.get_by_role("row", name=re.compile("vision")).first
    expect(vision.get_by_role("cell").nth(5)).to_have_text("3")  # borrowed: 19 held, 16 reserved
    speech = page.get_by_role("row", name=re.compile("speech")).first
    expect(speech.get_by_role("cell").nth(6)).to_have_text("")  # lends none: 24 devices are nobody's
    expect(page.get_by_role("img", name=re.compile("^Devices held by"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Devices that 2 pools borrowed"))).to_be_visible()
    tab.check()
    tab.picture("pools")


def test_the_timeline(scene: Scene, tab: Tab) -> None:
    page = tab.go("/timeline")
    table = page.get_by_role("region", name="What was decided")
    expect(table).to_contain_text("resnet")
    expect(table).to_contain_text("the gang fits")
    tab.check()
    tab.picture("timeline")


def test_a_sweep(scene: Scene, tab: Tab) -> None:
    page = tab.go("/sweeps")
    page.get_by_role("link", name="tune").click()
    rows = page.get_by_role("region", name="Members, best first").get_by_role("row")
    expect(rows).to_have_count(5)
    best = [float(rows.nth(at).get_by_role("cell").first.inner_text()) for at in range(1, 5)]
    assert best == sorted(best)
    expect(page.get_by_role("img", name=re.compile("^Parallel coordinates of 4"))).to_be_visible()
    tab.check()
    tab.picture("sweep")
    rows.nth(1).get_by_role("link").click()
    expect(page.get_by_role("img", name=re.compile(r"^loss: \d+ points"))).to_be_visible()  # it is over


def test_what_if(scene: Scene, tab: Tab) -> None:
    page = tab.go("/what-if")
    ask = page.get_by_role("button", name="What would happen?")
    expect(ask).to_be_disabled()  # nothing is asked yet
    page.get_by_label("Add nodes").fill("2")
    ask.click()
    jobs = page.get_by_role("region", name="Each job")
    expect(jobs).to_contain_text("too-wide", timeout=60_000)
    expect(page.get_by_role("region", name="The whole")).to_contain_text("Last job ends after")
    tab.check()
    tab.picture("what-if")


def test_a_job_that_never_ends_has_no_date(scene: Scene, tab: Tab) -> None:
    page = tab.go("/what-if")
    page.route("**/v1/what-if", lambda route: route.fulfill(json=ANSWER))  # 90 days take hours to play
    page.get_by_label("Add nodes").fill("1")
    page.get_by_role("button", name="What would happen?").click()
    jobs = page.get_by_role("region", name="Each job")
    row = {
        name: jobs.get_by_role("row", name=re.compile(name))
        for name in ("endless", "freed", "starved", "torn")
    }
    expect(row["endless"].get_by_role("cell")).to_have_text(
        ["endless", "lab", "as before", "never", "never", "never ends"]
    )
    expect(row["freed"].get_by_role("cell").last).to_have_text("ends only then")
    expect(row["starved"].get_by_role("cell").last).to_have_text("no longer ends")
    expect(row["torn"].get_by_role("cell").last).to_have_text("1 min later, in some futures never")
    for nonsense in ("NaN", "Infinity", "90 d", "89 d"):
        expect(page.locator("main")).not_to_contain_text(nonsense)
    tab.check()


def test_accuracy(scene: Scene, tab: Tab) -> None:
    page = tab.go("/accuracy?of=start")
    nothing = page.get_by_role("heading", name="No forecast has come true yet")
    expect(nothing).to_be_visible()
    tab.check()
    # Forecasts that came true take hours; these are as the API would tell them.
    page.route("**/v1/accuracy?what=finish", lambda route: route.fulfill(json=ACCURACY))
    page.get_by_role("button", name="finish", exact=True).click()
    table = page.get_by_role("region", name="Coverage and error")
    expect(table.get_by_role("row", name=re.compile("submission"))).to_contain_text("75 %")
    expect(page.get_by_role("img", name=re.compile("^Reliability at 3 quantiles"))).to_be_visible()
    tab.check()
    page.unroute("**/v1/accuracy?what=finish")


def test_administration(scene: Scene, tab: Tab) -> None:
    page = tab.go("/admin")
    expect(page.get_by_role("row", name=re.compile("right3"))).to_contain_text("draining")
    page.get_by_role("button", name="tokens").click()
    page.get_by_role("button", name="New token…").click()
    page.get_by_label("Name of the token").fill("made")
    page.get_by_role("button", name="Create").click()
    secret = page.get_by_role("region", name="New token").locator("code").inner_text()
    assert status(tab.url, secret) == 200
    assert secret not in scene.daemon.log.read_text(encoding="utf-8")
    assert not any(secret in url for url in tab.asked)
    page.get_by_role("button", name="Done").click()
    page.get_by_role("row", name=re.compile("made")).get_by_role("button").click()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("made"))).to_have_count(0)
    assert status(tab.url, secret) == 401
    tab.check()
    page.get_by_role("button", name="audit").click()
    expect(page.get_by_role("region", name="Audit log")).to_contain_text("revoke")
    page.get_by_role("button", name="users").click()
    expect(page.get_by_role("region", name="Users and their limits")).to_be_visible()
    tab.check()


def status(url: str, token: str) -> int:
    """The answer to a token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{url}/v1/session", headers=headers).status_code
