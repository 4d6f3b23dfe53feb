"""Events and logs as they happen."""

import json
import threading
import time
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from muster.api.door.limits import Limits
from muster.client.connecting.sse import Event, events
from tests.unit.api.harness import Api, running_api

JOB = {"name": "a", "command": "python train.py"}


def submitted(api: Api, workers: int = 1) -> int:
    """A job that runs."""
    number: int = api.http("ada").post("/v1/jobs", json=JOB).json()["number"]
    api.do(lambda: api.service.start(number, workers))
    return number


def stream(
    http: httpx.Client, path: str, mark: str | None = None, **query: Any
) -> Generator[Event, None, None]:
    """The events of a stream."""
    headers = {"Last-Event-ID": mark} if mark is not None else {}
    with http.stream("GET", path, params={"follow": True, **query}, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield from events(answer.iter_bytes())


def kind(event: Event) -> str:
    return str(json.loads(event.data)["kind"])


def test_events_come_as_they_happen_and_end_with_the_job(api: Api) -> None:
    number = submitted(api)
    coming = stream(api.http("ada"), f"/v1/jobs/{number}/events")
    assert [kind(next(coming)), kind(next(coming))] == ["Submitted", "Started"]
    api.do(lambda: api.service.end(number))
    assert kind(next(coming)) == "Ended"
    assert next(coming).name == "end"
    assert list(coming) == []


def test_a_stream_goes_on_after_the_last_event_that_was_read(api: Api) -> None:
    number = submitted(api)
    first = next(stream(api.http("ada"), "/v1/events"))
    api.do(lambda: api.service.end(number))
    rest = stream(api.http("ada"), f"/v1/jobs/{number}/events", mark=first.mark)
    assert [kind(each) for each in rest if each.name != "end"] == ["Started", "Ended"]


def test_a_reader_that_accepts_a_stream_gets_one_and_others_a_list(api: Api) -> None:
    number = submitted(api)
    api.do(lambda: api.service.end(number))
    http, path = api.http("ada"), f"/v1/jobs/{number}/events"
    told = http.get(path, headers={"Accept": "text/event-stream"})
    assert told.text.endswith("event: end\ndata: {}\n\n")
    assert [each["kind"] for each in http.get(path).json()] == ["Submitted", "Started", "Ended"]
    assert [each["seq"] for each in http.get(path, params={"after": 2}).json()] == [3]


def test_others_events_are_not_shown(api: Api) -> None:
    submitted(api)
    assert api.http("bob").get("/v1/events").json() == []
    assert len(api.http("root").get("/v1/events").json()) == 2


def test_a_silent_stream_says_that_it_lives() -> None:
    with running_api(Limits(heartbeat=0.01)) as api:
        number = submitted(api)
        path = f"/v1/jobs/{number}/events"
        with api.http().stream("GET", path, params={"follow": True}) as answer:
            for line in answer.iter_lines():
                if line == ": alive":
                    break
            else:
                pytest.fail("it ended without a word")


def test_a_token_has_so_many_streams_and_no_more() -> None:
    with running_api(Limits(streams=1)) as api:
        number = submitted(api)
        path = f"/v1/jobs/{number}/events"
        ada = api.http("ada")
        open_one = stream(ada, path)
        next(open_one)
        refused = ada.get(path, params={"follow": True})
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert next(stream(api.http("root"), path)).name == "message"
        api.do(lambda: api.service.end(number))
        assert list(open_one)
        assert ada.get(path, params={"follow": True}).status_code == 200


def test_what_streams_with_a_token_ends_when_it_is_revoked(api: Api) -> None:
    number = submitted(api)
    coming = stream(api.http("ada"), f"/v1/jobs/{number}/events")
    next(coming)
    api.http("root").delete("/v1/tokens/ada")
    assert "end" not in [each.name for each in coming]


def test_a_reader_that_is_gone_is_forgotten() -> None:
    with running_api(Limits(streams=1)) as api:
        number = submitted(api)
        path = f"/v1/jobs/{number}/events"
        headers = {"Authorization": "Bearer ada"}
        with (
            api.listening() as url,
            httpx.Client(base_url=url, headers=headers, trust_env=False) as http,
        ):
            coming = stream(http, path)
            next(coming)
            coming.close()
            until = time.monotonic() + 30
            while time.monotonic() < until:
                with http.stream("GET", path, params={"follow": True}) as answer:
                    if answer.status_code == 200:
                        return
        pytest.fail("the place was never free again")


def test_a_part_of_a_log(api: Api) -> None:
    number = submitted(api)
    api.do(lambda: api.service.print(number, "1/worker-0", b"0123456789"))
    http, path = api.http("ada"), f"/v1/jobs/{number}/logs/1/worker-0"
    part = http.get(path, params={"offset": 2, "size": 3})
    assert (part.text, part.headers["Log-Offset"], part.headers["Log-Next"]) == ("234", "2", "5")
    assert http.get(path, params={"offset": -4}).text == "6789"
    assert http.get(path, params={"offset": 10}).text == ""
    assert http.get(f"/v1/jobs/{number}/logs/2/worker-0").status_code == 404
    assert [task["log"] for task in http.get(f"/v1/jobs/{number}/logs").json()] == ["1/worker-0"]


def test_a_log_is_followed_in_whole_characters_to_the_jobs_end(api: Api) -> None:
    number = submitted(api)
    say = "größer 🚀\u2028".encode()
    api.do(lambda: api.service.print(number, "1/worker-0", say[:3]))
    coming = stream(api.http("ada"), f"/v1/jobs/{number}/logs/1/worker-0")
    heard = [json.loads(next(coming).data)["text"]]
    for at in range(3, len(say)):
        api.do(lambda at=at: api.service.print(number, "1/worker-0", say[at : at + 1]))  # type: ignore[misc]
    api.do(lambda: api.service.print(number, "1/worker-0", b"\xff\xe2\x82"))
    api.do(lambda: api.service.end(number))
    heard += [json.loads(each.data)["text"] for each in coming if each.name == "message"]
    assert "".join(heard) == "größer 🚀\u2028\ufffd\ufffd"


def test_all_logs_are_followed_those_to_come_among_them(api: Api) -> None:
    number = submitted(api, workers=2)
    api.do(lambda: api.service.print(number, "1/worker-1", b"one\n"))
    coming = stream(api.http("ada"), f"/v1/jobs/{number}/logs")
    first = next(coming)
    assert json.loads(first.data)["log"] == "1/worker-1"
    api.do(lambda: api.service.start(number))
    api.do(lambda: api.service.print(number, "2/worker-0", b"two\n"))
    second = next(coming)
    assert json.loads(second.data) == {"log": "2/worker-0", "offset": 0, "next": 4, "text": "two\n"}
    api.do(lambda: api.service.print(number, "1/worker-0", b"three\n"))
    api.do(lambda: api.service.end(number))
    assert [json.loads(each.data).get("text") for each in coming] == ["three\n", None]
    again = stream(api.http("ada"), f"/v1/jobs/{number}/logs", mark=second.mark)
    assert [json.loads(each.data).get("text") for each in again] == ["three\n", None]


def test_streams_end_when_the_daemon_does() -> None:
    with running_api() as api:
        number = submitted(api)
        heard: list[Event] = []
        with api.listening() as url:
            headers = {"Authorization": "Bearer ada"}
            http = httpx.Client(base_url=url, headers=headers, trust_env=False)
            coming = stream(http, f"/v1/jobs/{number}/events")
            heard.append(next(coming))
            reader = threading.Thread(target=lambda: heard.extend(coming))
            reader.start()
        reader.join(30)
        assert not reader.is_alive()
        assert "end" not in [each.name for each in heard]
        http.close()
