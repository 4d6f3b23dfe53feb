"""`/docs` draws the API with files of this machine alone, and says what to install without them."""

import re
from pathlib import Path

import pytest

from muster.api.page.api_docs import api_docs_routes, swagger_files
from tests.unit.api.harness import running_api
from tests.unit.api.routed import Routed


def test_the_page_its_scripts_and_what_they_read_come_from_here() -> None:
    if swagger_files() is None:
        pytest.skip("swagger-ui-py is not installed")
    with running_api() as api, api.http(None) as http:
        page = http.get("/docs")
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        found = re.findall(r'(?:src|href)="([^"]*)"', page.text)
        assert found and all(path.startswith("/docs/") for path in found)
        assert "<script>" not in page.text
        for path in found:
            answer = http.get(path)
            assert answer.status_code == 200 and answer.content, path
        (schema,) = re.findall(r'url: "([^"]*)"', http.get("/docs/start.js").text)
        assert http.get(schema).json()["openapi"].startswith("3.")
        assert http.get("/docs/../secret").status_code in (401, 404)


def test_without_them_it_says_how_to_get_them() -> None:
    client = Routed(api_docs_routes(None))
    assert "pip install 'musterd[api-docs]'" in client.get("/docs").text
    assert client.get("/docs/swagger-ui.css").status_code == 404


def test_the_files_are_where_the_package_has_them() -> None:
    folder = swagger_files()
    assert folder is None or Path(folder, "swagger-ui-bundle.js").is_file()
