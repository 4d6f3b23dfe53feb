"""Notices of real jobs: posted, signed, tried again, given to a command; nothing waits for them."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live.daemons import Daemon, until


@dataclass
class Listener:
    """A webhook: what was posted to it, and to which attempts it answers badly."""

    url: str = ""
    posts: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    refused: int = 0
    """So many posts are answered with 500 first."""

    def told(self) -> list[dict[str, Any]]:
        """What it has accepted."""
        return [json.loads(body) for _, body in self.posts[self.refused :]]

    def events_of(self, number: int) -> list[str]:
        return [each["event"] for each in self.told() if each["job"]["number"] == number]


@pytest.fixture
def listener() -> Iterator[Listener]:
    heard = Listener(refused=1)

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.posts.append((dict(self.headers.items()), body))
            self.send_response(500 if len(heard.posts) <= heard.refused else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as server:
        heard.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield heard
        server.shutdown()
        thread.join()


def test_a_webhook_hears_signed_notices_and_hears_again_what_it_refused(
    daemon: Daemon, listener: Listener
) -> None:
    words = ("--on", "started,succeeded,failed", "--on", "preempted", "--on", "waiting")
    daemon.muster("notify", "add", "hook", "--webhook", listener.url, *words, "--patience", "1s")
    good = daemon.client.submit({"name": "good", "command": ["true"]}).wait().number
    until(lambda: listener.events_of(good) == ["started", "succeeded"], "both are told, in order")
    refused, accepted = (json.loads(body) for _, body in listener.posts[:2])
    assert refused["id"] == accepted["id"]
    bad = daemon.client.submit({"name": "bad", "command": ["false"]}).wait().number
    until(lambda: "failed" in listener.events_of(bad))
    held = daemon.client.submit({"command": ["sleep", "600"], "devices": daemon.devices})
    daemon.await_status(str(held.number), "running")
    late = daemon.client.submit({"name": "late", "command": ["true"]}).number
    until(lambda: listener.events_of(late) == ["waiting"])
    daemon.client.requeue(held.number)
    until(lambda: "preempted" in listener.events_of(held.number))
    key = daemon.muster("notify", "key").stdout.strip()
    for headers, body in listener.posts:
        signed = headers["X-Muster-Time"].encode() + b"." + body
        expected = hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
        assert headers["X-Muster-Signature"] == f"sha256={expected}"
    assert daemon.muster("notify", "remove", "hook").returncode == 0


def test_a_command_is_run_with_the_notice_and_a_silent_webhook_holds_up_nobody(
    daemon: Daemon, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    line = f'cat >> {said}; echo " $MUSTER_EVENT $MUSTER_JOB_NAME" >> {said}'
    daemon.muster("notify", "add", "note", "--command", line)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent:
        # It accepts connections, as the system does for it, and never answers.
        url = f"http://127.0.0.1:{silent.server_address[1]}/"
        daemon.muster("notify", "add", "silent", "--webhook", url)
        for name in ("one", "two"):
            job = daemon.client.submit({"name": name, "command": ["true"]})
            assert job.wait().status == "succeeded"
        until(lambda: said.is_file() and said.read_text().count(" succeeded ") == 2)
        waiting = {each.name: each.pending for each in daemon.client.subscriptions()}
        assert waiting["silent"] > 0
    told, after = said.read_text().partition(" succeeded one\n")[::2]
    assert json.loads(told)["text"].endswith("one) succeeded")
    assert after.endswith(" succeeded two\n")
    for name in ("note", "silent"):
        daemon.muster("notify", "remove", name)
