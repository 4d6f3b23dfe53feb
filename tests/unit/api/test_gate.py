"""Tokens, limits and errors: what every request meets."""

import asyncio
import os

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from structlog.testing import capture_logs

from muster.api.door.gate import CALLER, RequestGate
from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits
from muster.api.door.peer import PEER, Peer
from muster.api.door.token_cache import KEPT, MAX_KEPT, TokenCache
from muster.api.page.sessions import BrowserSessions
from muster.api.parts import caller_of
from muster.daemon.service.protocol import Caller
from tests.fake_service import FakeService
from tests.unit.api.harness import Api, connected, running_api

JOB = {"command": "python train.py"}


async def nothing(*_: object) -> None:
    """Nobody listens."""


class Now:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer ", "Basic cm9vdA==", "Bearer wrong", "root"])
def test_without_a_valid_token_nothing_is_answered(api: Api, given: str | None) -> None:
    headers = {"Authorization": given} if given else {}
    for path in ("/v1/jobs", "/v1/nothing", "/metrics"):
        answer = api.http(None).get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "muster token create" in answer.json()["hint"]


def test_how_the_daemon_is_needs_no_token(api: Api) -> None:
    http = api.http(None)
    assert http.get("/healthz").text == "ok\n"
    assert http.get("/v1/status").json()["role"] == "active"
    assert http.get("/openapi.json").status_code == 200
    assert api.http().get("/metrics").text == "muster_pending_jobs 0\n"


def test_where_no_tokens_are_asked_for_everybody_is_an_administrator() -> None:
    with running_api(auth=False) as api:
        assert api.http(None).post("/v1/jobs", json=JOB).json()["user"] == "nobody"


@pytest.mark.parametrize("auth", [True, False])
@pytest.mark.parametrize("header", [(), ((b"authorization", b"Bearer ada"),)])
def test_a_unix_user_is_who_the_kernel_says_unless_it_has_a_token(
    auth: bool, header: tuple[tuple[bytes, bytes], ...]
) -> None:
    """Without tokens a header must not make an administrator of anybody."""
    found: list[Caller] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope[CALLER])

    async def ask() -> None:
        identify = FakeService().identify
        gate = RequestGate(
            app,
            tokens=TokenCache(identify, Now()),
            limits=Limits(),
            hosts=Hosts(),
            clock=Now(),
            auth=auth,
            owner=Caller("owner", admin=True),
            failed=nothing,
            sessions=BrowserSessions(Now()),
        )
        scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "headers": header}
        for uid in (os.geteuid(), 65534):
            await gate({**scope, PEER: Peer(f"uid {uid}", uid=uid)}, asyncio.Queue().get, print)  # type: ignore[arg-type]

    asyncio.run(ask())
    ada = [Caller("ada")] * 2
    assert found == (ada if auth and header else [Caller("owner", admin=True), Caller("nobody")])


def test_a_failed_login_is_reported_with_its_peer() -> None:
    told: list[tuple[str, str]] = []

    async def failed(peer: str, problem: str) -> None:
        told.append((peer, problem))

    async def nowhere(_: Message) -> None:
        pass

    async def ask() -> None:
        gate = RequestGate(
            nowhere,  # type: ignore[arg-type]
            tokens=TokenCache(FakeService().identify, Now()),
            limits=Limits(),
            hosts=Hosts(),
            clock=Now(),
            auth=True,
            owner=Caller("owner", admin=True),
            failed=failed,
            sessions=BrowserSessions(Now()),
        )
        headers = [(b"authorization", b"Bearer guessed"), (b"host", b"localhost")]
        scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "headers": headers}
        await gate({**scope, PEER: Peer("10.0.0.9")}, asyncio.Queue().get, nowhere)

    asyncio.run(ask())
    assert told == [("10.0.0.9", "the token is not valid")]


def test_a_token_that_was_revoked_is_refused_at_once(api: Api) -> None:
    root = api.http()
    secret = root.post("/v1/tokens", json={"name": "t", "user": "ada"}).json()["secret"]
    other = api.http(secret)
    assert other.get("/v1/jobs").status_code == 200
    assert root.delete("/v1/tokens/t").status_code == 204
    assert other.get("/v1/jobs").status_code == 401


def test_a_token_is_looked_up_once_a_moment_not_with_every_request() -> None:
    clock = Now()
    with running_api(clock=clock) as api:
        http = api.http()
        for _ in range(5):
            http.get("/v1/jobs")
        assert api.service.identified == 1
        # Revoked behind the API's back: it is found out within a second.
        del api.service.secrets["root"]
        clock.now += 1.0
        assert http.get("/v1/jobs").status_code == 401


def test_only_so_many_tokens_are_remembered() -> None:
    async def identify(secret: str) -> Caller | None:
        return Caller(secret) if secret != "bad" else None

    async def ask() -> None:
        tokens = TokenCache(identify, Now())
        for number in range(2 * MAX_KEPT):
            assert await tokens.caller(f"t{number}") == Caller(f"t{number}")
        assert await tokens.caller("bad") is None
        assert len(tokens._known) == MAX_KEPT

    asyncio.run(ask())
    assert KEPT < 1.0


def test_more_requests_than_the_rate_are_told_to_wait() -> None:
    clock = Now()
    with running_api(Limits(rate=2.0, burst=3), clock=clock) as api:
        http = api.http()
        assert [http.get("/v1/jobs").status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = http.get("/v1/jobs")
        assert refused.headers["Retry-After"] == "1"
        assert refused.json()["title"] == "Too Many Requests"
        # Another token has its own.
        assert api.http("ada").get("/v1/jobs").status_code == 200
        clock.now += 1.0
        assert [http.get("/v1/jobs").status_code for _ in range(3)] == [200, 200, 429]


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    with running_api(Limits(body=1000)) as api:
        answer = api.http().post("/v1/jobs", json={"command": "a" * 1000})
        assert answer.status_code == 413
        assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "text/plain",
        "text/plain; charset=application/json",
        "text/plain;json",
        "application/jsonx",
        "",
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_not_json_is_refused_with_what_helps(api: Api, kind: str, chunked: bool) -> None:
    """A page of another site can send all of these without asking; none may submit a job."""
    body = b'{"command": "true"}'
    headers = {"Content-Type": kind} if kind else {}
    content = iter([body]) if chunked else body
    answer = api.http().post("/v1/jobs", content=content, headers=headers)
    assert answer.status_code == 415
    assert "--json" in answer.json()["hint"]
    assert not api.service.entries


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_may_have_parameters(api: Api, kind: str) -> None:
    body = b'{"command": "true"}'
    assert api.http().post("/v1/jobs", content=body, headers={"Content-Type": kind}).status_code == 201


def test_the_answer_with_a_token_is_kept_by_nobody_and_errors_repeat_no_secret(api: Api) -> None:
    made = api.http().post("/v1/tokens", json={"name": "t", "user": "ada"})
    assert made.headers["Cache-Control"] == "no-store"
    for given in ("Bearer hunter2hunter2", "hunter2hunter2", "Basic hunter2hunter2"):
        answer = api.http(None).get("/v1/jobs", headers={"Authorization": given})
        assert answer.status_code == 401
        assert "hunter2" not in answer.text


def test_errors_are_problems_whatever_is_wrong(api: Api) -> None:
    http = api.http()
    answers = [
        http.get("/v1/nothing"),
        http.patch("/v1/jobs/1"),
        http.get("/v1/jobs", params={"limit": 0}),
        http.put("/v1/policy", json={"name": "fofi"}),
        http.put("/v1/policy", json={"nam": "fifo"}),
        http.put("/v1/policy", content=b"{", headers={"Content-Type": "application/json"}),
    ]
    assert [answer.status_code for answer in answers] == [404, 405, 422, 422, 422, 400]
    for answer in answers:
        assert answer.headers["Content-Type"] == "application/problem+json"
        found = answer.json()
        assert set(found) == {"type", "title", "status", "detail", "errors", "hint"}
        assert found["status"] == answer.status_code
    assert answers[1].headers["Allow"] == "DELETE, GET"
    assert [each["field"] for each in answers[4].json()["errors"]] == ["name", "nam"]


def test_a_fault_of_the_daemon_says_nothing_of_its_inside(api: Api) -> None:
    api.service.fails = RuntimeError("password=hunter2")
    with capture_logs() as logged:
        answer = api.http().post("/v1/jobs", json=JOB)
    assert [(each["event"], each["path"]) for each in logged] == [("request failed", "/v1/jobs")]
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert answer.json()["type"] == "urn:muster:internal-server-error"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/1/logs/1/..",
        "/v1/jobs/1/logs/1/..%2F..%2Fetc%2Fpasswd",
        "/v1/jobs/1/logs/..%2f..%2f1/worker-0",
        "/v1/jobs/1/logs/1/worker-0%00",
        "/v1/jobs/1/logs/1/worker-00",
        "/v1/jobs/..%2fnodes",
    ],
)
def test_a_name_that_leads_elsewhere_leads_nowhere(api: Api, path: str) -> None:
    api.http().post("/v1/jobs", json=JOB)
    api.do(lambda: api.service.start(1))
    with api.listening() as url, connected(url) as sender:
        # As it is: a client would tidy it up.
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer root\r\n\r\n"
        sender.sendall(head.encode())
        status = sender.recv(65536).split()[1]
    assert status in {b"404", b"422"}


def test_the_audit_log_names_the_unix_user_at_the_socket() -> None:
    def heard(peer: Peer) -> str:
        scope = {"type": "http", CALLER: Caller("ada"), PEER: peer}
        return asyncio.run(caller_of(Request(scope))).address

    assert heard(Peer("uid 0", uid=0)) == "unix:root"
    assert heard(Peer("uid 4000000", uid=4_000_000)) == "uid 4000000"
    assert heard(Peer("10.0.0.7", "10.0.0.1")) == "10.0.0.7"
