"""Users are told what becomes of their jobs, by real requests and commands, whatever else goes on."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.notify import send, subscription
from muster.daemon.notify.notice import MOMENT, SIGNATURE, signature_of
from muster.daemon.notify.subscription import Subscription, refuse_bad
from muster.daemon.service.protocol import Caller, NotFoundError, RefusedError
from muster.wire.api.use_records import SubscriptionRecord
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, until


class Hook:
    """A server that is told, and what it was told."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[tuple[bytes, dict[str, str]]] = []
        self.answers: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.raw.append((body, dict(self.headers)))
                status = hook.answers.pop(0) if hook.answers else 204
                if status == 204:
                    hook.bodies.append(json.loads(body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@contextmanager
def listening() -> Iterator[Hook]:
    hook = Hook()
    thread = threading.Thread(target=hook.server.serve_forever)
    thread.start()
    try:
        yield hook
    finally:
        hook.server.shutdown()
        thread.join()
        hook.server.server_close()


async def _subscribe(made: RunningDaemon, caller: Caller, **fields: Any) -> None:
    await made.service.subscribe(caller, "chat", SubscriptionRecord("chat", **fields))


def test_a_webhook_is_told_signed_and_again_after_an_error(tmp_path: Path) -> None:
    async def told() -> None:
        with listening() as hook:
            hook.answers = [500]
            async with running_daemon(tmp_path) as made:
                await _subscribe(made, ADMIN, webhook=hook.url, on=("failed",), everybody=True)
                record = await made.service.submit(ANN, program("bad", "exit", "3"))
                await made.service.submit(ANN, program("good", "exit", "0"))
                await until(made, lambda: bool(hook.bodies))
                (told,) = hook.bodies
                assert told["event"] == "failed"
                assert told["job"]["number"] == record.number
                assert told["text"].startswith(f"job {record.number} (ann/bad) failed")
                key = await made.service.notify_secret(ADMIN)
                body, headers = hook.raw[-1]
                expected = f"sha256={signature_of(key, headers[MOMENT], body)}"
                assert headers[SIGNATURE] == expected
                assert hook.raw[0][0] == body
                await until(made, lambda: made.service.notifier.state_of("root/chat")[:3] == (1, 0, 0))

    asyncio.run(told())


def test_what_could_not_be_told_is_told_by_the_next_daemon(tmp_path: Path) -> None:
    async def told() -> None:
        with listening() as hook:
            hook.answers = [503]
            async with running_daemon(tmp_path) as made:
                await _subscribe(made, ADMIN, webhook=hook.url, on=("succeeded",), everybody=True)
                await made.service.submit(ANN, program("a", "exit", "0"))
                await until(made, lambda: made.service.notifier.state_of("root/chat")[3] != "")
            async with running_daemon(tmp_path) as made:
                await until(made, lambda: bool(hook.bodies))
                assert hook.bodies[0]["event"] == "succeeded"

    asyncio.run(told())


def test_commands_get_the_notice_and_their_failure_is_told(tmp_path: Path) -> None:
    async def told() -> None:
        out = tmp_path / "told"
        async with running_daemon(tmp_path) as made:
            command = f'echo "$MUSTER_EVENT $MUSTER_JOB_NAME" > {out}.new; mv {out}.new {out}'
            await _subscribe(made, ADMIN, command=command, on=("started",), everybody=True)
            await made.service.submit(ANN, program("a"))
            await until(made, out.exists)
            assert out.read_text() == "started a\n"
            await _subscribe(made, ADMIN, command="echo no room >&2; exit 4", on=("started",))
            trial = await made.service.try_subscription(ADMIN, "chat")
            assert (trial.told, trial.error) == (False, "it exited with 4: no room")

    asyncio.run(told())


def test_a_job_may_have_a_webhook_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        with listening() as hook:
            async with running_daemon(tmp_path) as made:
                asked = program("a", "exit", "0")
                noisy = replace(asked.program, notify=hook.url, notify_on=("succeeded",))
                add = f"muster notify add NAME --webhook {hook.url}"
                for caller, advice in ((ANN, "ask an administrator"), (ADMIN, add)):
                    for ask in (made.service.submit, made.service.forecast):
                        with pytest.raises(RefusedError, match="daemon's own machine") as refused:
                            await ask(caller, replace(asked, program=noisy))
                        assert advice in str(refused.value)
                for module in (send, subscription):  # as if the hook were on another machine
                    monkeypatch.setattr(module, "reaches_daemon", lambda _: False)
                await made.service.submit(ANN, replace(asked, program=noisy))
                await until(made, lambda: bool(hook.bodies))
                assert [each["event"] for each in hook.bodies] == ["succeeded"]

    asyncio.run(told())


def test_a_job_that_waits_too_long_is_told_once(tmp_path: Path) -> None:
    async def told() -> None:
        with listening() as hook:
            async with running_daemon(tmp_path) as made:
                await made.service.submit(ANN, program("large", workers=4))
                record = await made.service.submit(ANN, program("next", workers=4))
                fields = {"webhook": hook.url, "on": ("waiting",), "everybody": True, "patience": 1e-6}
                await _subscribe(made, ADMIN, **fields)
                made.service.notifier._look_for_waiting()
                made.service.notifier._look_for_waiting()
                await made.service.submit(ANN, program("third", workers=4))
                number = record.number
                await until(made, lambda: number in {e["job"]["number"] for e in hook.bodies})
                first = [each for each in hook.bodies if each["job"]["number"] == number]
                assert len(first) == 1
                assert "still waits" in first[0]["text"]

    asyncio.run(told())


def test_users_have_their_own_and_may_not_reach_into_the_daemon(tmp_path: Path) -> None:
    async def refused() -> None:
        async with running_daemon(tmp_path) as made:
            await _subscribe(made, ANN, webhook="https://hooks.example.org/x", on=("failed",))
            assert [each.name for each in await made.service.subscriptions(ANN)] == ["chat"]
            assert not await made.service.subscriptions(BOB)
            with pytest.raises(NotFoundError):
                await made.service.unsubscribe(BOB, "chat")
            await made.service.unsubscribe(ANN, "chat")
            assert not await made.service.subscriptions(ADMIN)

    asyncio.run(refused())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"webhook": "ftp://example.org"}, "is no webhook"),
        ({"webhook": "http://[::1]:80/"}, "the daemon's own machine"),
        ({"webhook": "http://169.254.169.254/latest"}, "the daemon's own machine"),
        ({"command": "true"}, "for administrators"),
        ({"webhook": "https://a.example", "everybody": True}, "for administrators"),
        ({}, "give a webhook or a command"),
    ],
)
def test_what_a_user_may_not_subscribe(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        refuse_bad(Subscription("chat", "ann", **fields), admin=False)


def test_a_name_that_leads_to_the_daemons_machine_is_not_asked() -> None:
    assert asyncio.run(send._is_own("http://localhost:1/"))
