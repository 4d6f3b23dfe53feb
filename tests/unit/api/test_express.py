"""Submissions and plain lists take a short way around FastAPI: callers cannot tell."""

import asyncio
from typing import Any

import pytest

from muster.api import express
from muster.api.door.token_cache import TokenCache
from muster.daemon.service.protocol import Caller
from tests.unit.api.harness import Api

JOB = {"name": "resnet50", "command": "python train.py", "devices": "1..8"}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (JOB, {}),
        (JOB, {"Idempotency-Key": "mine"}),
        (JOB, {"Idempotency-Key": "with a space"}),
        (JOB, {"Idempotency-Key": "x" * 201}),
        ({**JOB, "devices": "8..1", "priority": "high"}, {}),
        ({**JOB, "user": "bob"}, {}),
        ({**JOB, "sweep": {"lr": [1, 2]}}, {}),
        ([], {}),
    ],
)
def test_both_ways_answer_the_same(
    api: Api, monkeypatch: pytest.MonkeyPatch, body: Any, headers: dict[str, str]
) -> None:
    short = api.http("ada").post("/v1/jobs", json=body, headers=headers)
    monkeypatch.setattr(express, "_is_submission", lambda scope: False)
    long = api.http("ada").post("/v1/jobs", json={**body, "name": "other"} if body else body)
    if "Idempotency-Key" in headers:
        long = api.http("ada").post("/v1/jobs", json=body, headers=headers)
    assert short.status_code == long.status_code
    assert short.headers["Content-Type"] == long.headers["Content-Type"]
    if short.status_code == 201:
        assert short.headers["Location"].startswith("/v1/jobs/")
        assert short.json().keys() == long.json().keys()
    else:
        assert short.json() == long.json()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "limit=2",
        "limit=2&order=active",
        "order=newest",
        "limit=0",
        "limit=1001",
        "limit=2&limit=3",
        "limit=٢",
        "order=oldest",
        "limit=%32",
        "user=bob",
        "size=3",
    ],
)
def test_both_ways_list_the_same(api: Api, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    for name in ("one", "two", "three"):
        api.http("ada").post("/v1/jobs", json={**JOB, "name": name})
    short = api.http("ada").get(f"/v1/jobs?{query}")
    monkeypatch.setattr(express, "_plain_list", lambda scope: None)
    long = api.http("ada").get(f"/v1/jobs?{query}")
    assert (short.status_code, short.json()) == (long.status_code, long.json())
    assert short.headers["Content-Type"] == long.headers["Content-Type"]


def test_requests_that_come_together_ask_the_store_once() -> None:
    asked = 0

    async def identify(secret: str) -> Caller | None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return Caller("ada", admin=False)

    async def together() -> list[Caller | None]:
        tokens = TokenCache(identify, lambda: 0.0)
        given_up = asyncio.ensure_future(tokens.caller("t"))
        others = [asyncio.ensure_future(tokens.caller("t")) for _ in range(5)]
        await asyncio.sleep(0)
        given_up.cancel()  # whoever gives up takes the answer from nobody
        return [await each for each in others]

    assert asyncio.run(together()) == [Caller("ada", admin=False)] * 5
    assert asked == 1
