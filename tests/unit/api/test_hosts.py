"""Pages of other sites may not use the daemon, with or without tokens."""

import http.client
from contextlib import closing

import httpx
import pytest

from muster.api.door.hosts import Hosts
from muster.api.door.peer import Peer
from muster.api.problem import ProblemError
from tests.unit.api.harness import running_api

BODY = b'{"command": "true"}'


def post(url: str, **headers: str) -> int:
    """Submit a job as a browser would, with these headers."""
    parts = httpx.URL(url)
    with closing(http.client.HTTPConnection(parts.host, parts.port, timeout=30)) as line:
        line.putrequest("POST", "/v1/jobs", skip_host=True)
        sent = {"Host": parts.netloc.decode(), "Content-Type": "application/json"}
        for name, text in {**sent, **headers, "Content-Length": str(len(BODY))}.items():
            if text:
                line.putheader(name, text)
        line.endheaders(BODY)
        return line.getresponse().status


@pytest.mark.parametrize("auth", [True, False])
def test_a_name_that_was_made_to_point_here_is_refused(auth: bool) -> None:
    """DNS rebinding: the page's own name resolves to 127.0.0.1, and the browser sends it as Host."""
    with running_api(auth=auth) as api, api.listening() as url:
        token = {"Authorization": "Bearer root"}
        port = httpx.URL(url).port
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.1", ""):
            assert post(url, Host=host, **token) == 403
        assert not api.service.entries
        for host in ("localhost", f"127.0.0.1:{port}", "[::1]:80", "LOCALHOST."):
            assert post(url, Host=host, **token) == 201


@pytest.mark.parametrize("auth", [True, False])
def test_another_sites_page_is_refused(auth: bool) -> None:
    with running_api(auth=auth) as api, api.listening() as url:
        token = {"Authorization": "Bearer root"}
        for origin in ("http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"):
            assert post(url, Origin=origin, **token) == 403
        assert not api.service.entries
        assert post(url, Origin=url, **token) == 201


def test_a_form_of_another_site_is_refused_even_by_a_daemon_without_tokens() -> None:
    with running_api(auth=False) as api, api.listening() as url:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            assert post(url, **{"Content-Type": kind}) == 415
            assert post(url, Origin="http://evil.example", **{"Content-Type": kind}) == 403
        assert not api.service.entries


def test_the_address_it_was_reached_at_and_allowed_names_are_its_own() -> None:
    hosts, peer = Hosts(["GPU1.lab."]), Peer("10.0.0.9", local="10.0.0.1")
    for host in (b"10.0.0.1:7077", b"gpu1.lab", b"gpu1.lab:7077", b"127.0.0.1"):
        hosts.check(peer, {b"host": host})
    for host in (b"10.0.0.2", b"gpu2.lab", b"[", b"gpu1.lab@evil.example", b"evil.example#gpu1.lab"):
        with pytest.raises(ProblemError, match="Host"):
            hosts.check(peer, {b"host": host})
