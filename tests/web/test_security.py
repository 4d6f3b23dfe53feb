"""What a browser keeps from others: tokens, sessions, other users' jobs, and scripts in names."""

import re
import sys
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect

from tests.live.daemons import Daemon
from tests.web.conftest import HOLD, OpenTab

SCRIPT = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>"


def test_login_and_logout(daemon: Daemon, open_tab: OpenTab) -> None:
    tab = open_tab(daemon)
    page = tab.go("/cluster")
    tab.check()
    page.get_by_label("Token", exact=True).fill("mst_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("Token", exact=True).fill(daemon.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()
    (cookie,) = page.context.cookies(daemon.url + "/v1/jobs")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    kept = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert daemon.token not in kept and daemon.token not in cookie["value"]
    stolen = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    assert httpx.get(f"{daemon.url}/v1/jobs", headers=stolen).status_code == 401
    page.reload()
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()
    both = {**stolen, "Muster-Session": page.evaluate("localStorage['muster.session']")}
    assert httpx.get(f"{daemon.url}/v1/jobs", headers=both).status_code == 200
    foreign = {**both, "Origin": "http://evil.example"}
    assert httpx.delete(f"{daemon.url}/v1/jobs?all=true", headers=foreign).status_code == 403
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    assert httpx.get(f"{daemon.url}/v1/jobs", headers=both).status_code == 401
    assert not any(daemon.token in url for url in tab.asked)
    assert daemon.token not in daemon.log.read_text(encoding="utf-8")


def test_the_address_of_muster_open_logs_in_once(daemon: Daemon, open_tab: OpenTab) -> None:
    link = daemon.muster("open", "-n").stdout.strip().removeprefix(daemon.url)
    tab = open_tab(daemon)
    page = tab.go(link)
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()
    assert page.url == f"{daemon.url}/"  # the code has left the address
    late = open_tab(daemon).go(link)
    expect(late.get_by_role("alert")).to_contain_text("muster open")


def test_names_labels_and_logs_are_text(daemon: Daemon, open_tab: OpenTab) -> None:
    daemon.submit(
        *("sh", "-c", f'echo "{SCRIPT}"; {HOLD}'),
        name="sly",
        labels={"a": "<b>bold</b>"},
        env={"X": SCRIPT},
    )
    daemon.await_status("sly", "running")
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token)
    expect(page.get_by_text("a=<b>bold</b>")).to_be_visible()
    page.get_by_role("link", name="sly").click()
    expect(page.get_by_label("Log", exact=True)).to_contain_text("<script>")
    expect(page.get_by_label("Command")).to_contain_text("onerror")
    tab.check()
    assert "pwned" not in page.title()
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_errors_sweeps_and_addresses_are_text(daemon: Daemon, open_tab: OpenTab) -> None:
    broken = daemon.submit(sys.executable, "-c", f"raise ValueError({SCRIPT!r})", name="breaks")
    broken.wait()
    done = daemon.muster("run", "-y", "--name", "many", "--sweep", f"x={SCRIPT},2", "--", "echo", "{x}")
    assert done.returncode == 0, done.stderr
    tab = open_tab(daemon)
    page = tab.log_in(daemon.token, f"/?q={quote(SCRIPT)}")
    expect(page.get_by_role("alert")).to_contain_text("name")  # refused, and said so
    tab.go(f"/jobs/{broken.number}")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("<script>")
    tab.go(f"/sweeps/{daemon.client.sweeps()[0].number}")
    expect(page.get_by_role("cell", name=re.compile("onerror")).first).to_be_visible()
    tab.go(f"/cluster?node={quote(SCRIPT)}")
    expect(page.get_by_role("heading", name=re.compile("onerror"))).to_be_visible()
    assert "pwned" not in page.title()
    assert page.locator("img[src=x]").count() == 0
    assert not tab.elsewhere


@pytest.mark.slow
def test_other_users_jobs_are_hidden(daemon: Daemon, open_tab: OpenTab) -> None:
    secret = daemon.sh(HOLD, name="secret-plan")
    daemon.await_status("secret-plan", "running")
    token = daemon.client.create_token("bea", "bea").secret
    assert token is not None
    tab = open_tab(daemon)
    page = tab.log_in(token)
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    assert page.get_by_role("link", name="Administration").count() == 0
    for path in ("/cluster", "/timeline", "/pools"):
        tab.go(path)
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.get_by_text("secret-plan")).to_have_count(0)
    tab.go("/cluster")
    expect(page.get_by_text(re.compile("Every device is free"))).to_have_count(1)
    tab.check()
    tab.go(f"/jobs/{secret.number}")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    daemon.client.revoke_token("bea")
    tab.go("/")
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("session has ended")
