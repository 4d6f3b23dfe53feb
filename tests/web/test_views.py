"""Every view against a real daemon with jobs of every kind; the pictures of the docs are made here."""

import re
from collections.abc import Iterator

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
    expect(page.get_by_label("Log", exact=True)).to_contain_text("epoch 30")
    page.get_by_label("Search the log").fill("epoch 12:")
    expect(page.get_by_label("Log", exact=True)).not_to_contain_text("epoch 30")
    page.get_by_label("Search the log").fill("")
    tab.check()
    tab.picture("job")


def test_the_cluster(scene: Scene, tab: Tab) -> None:
    page = tab.go("/cluster")
    expect(page.get_by_text("48 devices on 6 nodes")).to_be_visible()
    expect(page.get_by_text(re.compile("right3 draining"))).to_be_visible()
    tab.check()
    tab.picture("cluster")
    canvas = page.locator("canvas")
    canvas.hover(position={"x": 20, "y": 60})
    expect(page.locator(".hint")).to_contain_text("left1")
    canvas.click(position={"x": 20, "y": 60})
    expect(page).to_have_url(re.compile(r"/jobs/\d+|node=left1"))
    tab.go("/cluster?node=left1")
    expect(page.get_by_role("region", name="Node left1")).to_contain_text("8 A100")
    tab.check()


def test_pools(scene: Scene, tab: Tab) -> None:
    page = tab.go("/pools")
    expect(page.get_by_role("row", name=re.compile("vision")).first).to_contain_text("of")
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


def test_what_if(scene: Scene, tab: Tab) -> None:
    page = tab.go("/what-if")
    ask = page.get_by_role("button", name="What would happen?")
    expect(ask).to_be_disabled()  # nothing is asked yet
    page.get_by_label("Add nodes").fill("2")
    ask.click()
    jobs = page.get_by_role("region", name="Each job")
    expect(jobs).to_contain_text("too-wide", timeout=60_000)
    expect(page.get_by_role("region", name="The whole")).to_contain_text("Makespan")
    tab.check()
    tab.picture("what-if")


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
