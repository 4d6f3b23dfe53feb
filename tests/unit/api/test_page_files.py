"""The dashboard's files: open to everybody, with headers that keep others out."""

import gzip
from pathlib import Path

import pytest

from muster.api.page.files import VIEWS, is_page, page_routes
from tests.unit.api.harness import Api
from tests.unit.api.routed import Routed

ROOT = Path(__file__).parents[3]


def built(folder: Path) -> Routed:
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<p>the page", encoding="utf-8")
    (folder / "assets/main-1.js").write_text("run()", encoding="utf-8")
    (folder / "assets/main-1.js.gz").write_bytes(gzip.compress(b"run()"))
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return Routed(page_routes(folder))


def test_every_view_is_the_page_and_may_not_be_framed(tmp_path: Path) -> None:
    client = built(tmp_path)
    for path in ("/", "/cluster", "/jobs/12", "/sweeps/3", "/admin"):
        answer = client.get(path)
        assert answer.text == "<p>the page"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-cache"


def test_assets_are_compressed_and_kept_for_ever(tmp_path: Path) -> None:
    client = built(tmp_path)
    answer = client.get("/assets/main-1.js")
    assert (answer.text, answer.headers["Content-Encoding"]) == ("run()", "gzip")
    assert "immutable" in answer.headers["Cache-Control"]
    plain = client.get("/assets/main-1.js", headers={"Accept-Encoding": "identity"})
    assert plain.text == "run()" and "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("name", ["none.js", "..%2Fsecret.txt", "%2e%2e/secret.txt", "../secret.txt"])
def test_nothing_but_assets_is_served(tmp_path: Path, name: str) -> None:
    assert built(tmp_path).get(f"/assets/{name}").status_code == 404


def test_without_a_built_page_the_address_says_how_to_build_it(tmp_path: Path) -> None:
    answer = Routed(page_routes(tmp_path)).get("/")
    assert answer.status_code == 200 and "make page" in answer.text


def test_the_page_needs_no_token_and_everything_else_does(api: Api) -> None:
    http = api.http(None)
    assert http.get("/").headers["Content-Type"].startswith("text/html")
    assert http.get("/jobs/1").status_code == 200
    for path in ("/v1/jobs", "/metrics", "/v1/", "/jobsx", "/none"):
        assert http.get(path).status_code == 401, path
        assert not is_page(path)


def test_page_and_daemon_know_the_same_views() -> None:
    source = (ROOT / "web/src/views/index.ts").read_text(encoding="utf-8")
    assert {part.partition('"')[0] for part in source.split('{ word: "')[1:]} == VIEWS
