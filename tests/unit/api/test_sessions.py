"""Sessions of browsers: two halves, ends, and what one half alone is worth."""

from pathlib import Path

import pytest

from muster.api.page.sessions import (
    CODE_LIFE,
    IDLE,
    KEY_HEADER,
    LONGEST,
    MAX_SESSIONS,
    BrowserSessions,
)
from muster.client import Client
from muster.daemon.service.protocol import Caller
from tests.unit.api.harness import Api, running_api


class Now:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asking(cookie: str, key: str) -> dict[bytes, bytes]:
    """The headers of a browser's request."""
    cookies = f"theme=dark; muster-session-7077={cookie}"
    return {b"cookie": cookies.encode(), KEY_HEADER.lower().encode(): key.encode()}


def test_a_session_stands_for_the_token_it_was_opened_with() -> None:
    sessions = BrowserSessions(Now())
    cookie, key = sessions.open("secret")
    assert sessions.holder(asking(cookie, key)) == "secret"


def test_half_a_session_is_none() -> None:
    sessions = BrowserSessions(Now())
    cookie, key = sessions.open("secret")
    other_cookie, other_key = sessions.open("another")
    for halves in ((cookie, ""), ("", key), (cookie, other_key), (other_cookie, key), ("", "")):
        assert sessions.holder(asking(*halves)) is None


def test_a_session_ends_without_use_and_after_a_week_with_it() -> None:
    clock = Now()
    sessions = BrowserSessions(clock)
    idle, busy = sessions.open("idle"), sessions.open("busy")
    began = clock.now
    while clock.now - began <= LONGEST - IDLE:
        clock.now += IDLE / 2
        assert sessions.holder(asking(*busy)) == "busy"
    assert sessions.holder(asking(*idle)) is None
    clock.now = began + LONGEST + 1
    assert sessions.holder(asking(*busy)) is None


def test_many_sessions_push_out_the_one_that_nobody_uses() -> None:
    sessions = BrowserSessions(Now())
    used, unused = sessions.open("used"), sessions.open("unused")
    sessions.holder(asking(*used))
    for number in range(MAX_SESSIONS - 1):
        sessions.open(str(number))
    assert sessions.holder(asking(*used)) == "used"
    assert sessions.holder(asking(*unused)) is None


def log_in(api: Api, token: str = "root") -> tuple[str, str]:
    answer = api.http(token).post("/v1/session")
    assert answer.status_code == 201
    given = answer.headers["Set-Cookie"]
    assert "HttpOnly" in given and "samesite=strict" in given.lower() and "Path=/v1" in given
    assert token not in given
    return given.partition(";")[0], answer.json()["key"]


def test_a_token_opens_a_session_that_needs_no_token(api: Api) -> None:
    cookie, key = log_in(api)
    halves = {"Cookie": cookie, KEY_HEADER: key}
    me = api.http(None).get("/v1/session", headers=halves)
    assert me.json() == {"user": "root", "admin": True, "login": True, "key": None}
    assert api.http(None).post("/v1/jobs", json={"command": "true"}, headers=halves).status_code == 201
    assert api.http(None).delete("/v1/session", headers=halves).status_code == 204
    assert api.http(None).get("/v1/session", headers=halves).status_code == 401


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_cookie_alone_is_refused(api: Api, method: str) -> None:
    """As another site's form or another port's server would send it."""
    cookie, _ = log_in(api)
    answer = api.http(None).request(method, "/v1/jobs", headers={"Cookie": cookie})
    assert answer.status_code == 401


def test_a_session_ends_with_its_token(api: Api) -> None:
    token = api.http().post("/v1/tokens", json={"name": "browser", "user": "ada"}).json()["secret"]
    cookie, key = log_in(api, token)
    halves = {"Cookie": cookie, KEY_HEADER: key}
    assert api.http(None).get("/v1/session", headers=halves).json()["user"] == "ada"
    api.http().delete("/v1/tokens/browser")
    assert api.http(None).get("/v1/session", headers=halves).status_code == 401


def test_where_no_token_is_needed_there_is_nothing_to_log_out_of() -> None:
    with running_api(auth=False) as api:
        assert api.http(None).get("/v1/session").json()["login"] is False
        opened = api.http(None).post("/v1/session")
        assert opened.json()["key"] is None and "Set-Cookie" not in opened.headers


def test_a_code_opens_one_session_for_who_asked_for_it() -> None:
    clock = Now()
    sessions = BrowserSessions(clock)
    ada = Caller("ada")
    code = sessions.code(ada)
    assert sessions.redeem("guessed") is None
    assert sessions.redeem(code) == ada
    assert sessions.redeem(code) is None
    late = sessions.code("secret")
    clock.now += CODE_LIFE + 1
    assert sessions.redeem(late) is None


def test_a_browser_logs_in_with_a_code(api: Api) -> None:
    code = api.client("root").session_code()
    answer = api.http(None).post("/v1/session/redeem", json={"code": code})
    assert answer.status_code == 201 and answer.json()["user"] == "root"
    halves = {
        "Cookie": answer.headers["Set-Cookie"].partition(";")[0],
        KEY_HEADER: answer.json()["key"],
    }
    assert api.http(None).get("/v1/session", headers=halves).json()["admin"]
    again = api.http(None).post("/v1/session/redeem", json={"code": code})
    assert again.status_code == 401 and "muster open" in again.json()["detail"]


def test_a_unix_user_logs_a_browser_in(api: Api, tmp_path: Path) -> None:
    """Whom the kernel knows needs no token, in the browser neither."""
    with api.on_unix_socket(tmp_path / "s") as url, Client(url) as client:
        code = client.session_code()
    answer = api.http(None).post("/v1/session/redeem", json={"code": code})
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    halves = {"Cookie": cookie, KEY_HEADER: answer.json()["key"]}
    found = api.http(None).get("/v1/session", headers=halves).json()
    assert (found["user"], found["login"]) == (answer.json()["user"], True)
    api.http(None).delete("/v1/session", headers=halves)
    assert api.http(None).get("/v1/session", headers=halves).status_code == 401
