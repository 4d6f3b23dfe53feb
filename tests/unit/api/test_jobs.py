"""Jobs over HTTP: what is taken, what is refused, and whose they are."""

from typing import Any

import pytest

from muster.daemon.service.protocol import UnavailableError
from tests.unit.api.harness import Api

JOB = {"name": "resnet50", "command": "python train.py", "devices": "1..8"}


def submit(api: Api, token: str = "ada", key: str | None = None, **fields: Any) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = api.http(token).post("/v1/jobs", json={**JOB, **fields}, headers=headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_job_is_taken_in_and_found_by_number_and_name(api: Api) -> None:
    answer = api.http("ada").post("/v1/jobs", json=JOB)
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/v1/jobs/1"
    for which in ("1", "resnet50"):
        found = api.http("ada").get(f"/v1/jobs/{which}").json()["job"]
        assert (found["number"], found["user"], found["status"]) == (1, "ada", "waiting")


def test_the_same_key_is_the_same_job(api: Api) -> None:
    assert submit(api, key="k")["number"] == submit(api, key="k")["number"] == 1
    assert submit(api, "bob", key="k")["number"] == 2
    assert submit(api, key="other")["number"] == 3


def test_the_tokens_user_owns_the_job_and_only_administrators_name_another(api: Api) -> None:
    answer = api.http("ada").post("/v1/jobs", json={**JOB, "user": "bob"})
    assert answer.status_code == 422
    told = {"field": "user", "problem": "only administrators submit for others; leave it out"}
    assert answer.json()["errors"] == [told]
    assert not api.service.entries
    assert submit(api, "ada", user="ada")["user"] == "ada"
    assert submit(api, "ada", origin={"user": "login"})["user"] == "ada"
    assert submit(api, "root", origin={"user": "login"})["user"] == "login"
    assert submit(api, "root", user="bob")["user"] == "bob"
    assert submit(api, "root")["user"] == "root"


def test_every_wrong_field_is_told_at_once(api: Api) -> None:
    wrong: dict[str, Any] = {
        "name": "my job",
        "command": "a && b",
        "shell": "maybe",
        "folder": "",
        "env": {"1X": "a"},
        "user": "a b",
        "pool": "",
        "priority": "high",
        "preemptible": 2,
        "devices": "8..1",
        "any_of": "V100",
        "same_generation": [],
        "gang": 0,
        "cores": -1,
        "memory": 16,
        "roles": {},
        "locality": "nod",
        "model": ["resnet50"],
        "batch": 0.5,
        "step": {"compute": "1s"},
        "duration": "2 hours",
        "work": 0,
        "application": "a b",
        "elastic": "sometimes",
        "pause": 30,
        "sync": "rings",
        "owners": None,
        "grace": "soon",
        "checkpoint_signal": "SIGUSR3",
        "checkpoint_grace": {},
        "failures": -1,
        "losses": "many",
        "devcies": 4,
    }
    answer = api.http().post("/v1/jobs", json=wrong)
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert {each["field"].partition(".")[0] for each in problem["errors"]} == set(wrong)
    told = {each["field"]: each["problem"] for each in problem["errors"]}
    assert told["devcies"] == "unknown field (did you mean 'devices'?)"
    assert told["checkpoint_signal"].endswith("(did you mean 'SIGUSR2'?)")
    assert told["owners"] == "has no value; add one or remove the line"
    assert not api.service.entries


def test_faults_between_fields_are_told_at_once_too(api: Api) -> None:
    fields = {
        "devices": "2..4",
        "gang": 3,
        "model": "./mine.yaml",
        "folder": "here",
        "sync": "dedicated",
    }
    problem = api.http().post("/v1/jobs", json={**JOB, **fields}).json()
    assert [each["field"] for each in problem["errors"]] == ["gang", "model", "folder", "sync"]


def test_a_variable_without_a_value_is_refused(api: Api) -> None:
    problem = api.http().post("/v1/jobs", json={**JOB, "env": {"A": "1", "TOKEN": None}}).json()
    assert [each["field"] for each in problem["errors"]] == ["env.TOKEN"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b'"\\ud800"', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b"3", 422),
        (b'{"command": "a", "cores": 1e999}', 422),
        (b'{"command": "a", "cores": ' + b"9" * 10_000 + b"}", 422),
        (b'{"command": "a", "env": ' + b'{"a":' * 500 + b"1" + b"}" * 501, 422),
    ],
)
def test_what_is_no_job_is_refused(api: Api, body: bytes, status: int) -> None:
    answer = api.http().post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {status, 400}
    assert answer.json()["status"] == answer.status_code
    assert not api.service.entries


def test_what_could_never_be_is_refused_with_the_nearest_that_could(api: Api) -> None:
    answer = api.http().post("/v1/jobs", json={**JOB, "devices": 65})
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "65 devices are not there; at most 64",
    )


def test_a_journal_that_cannot_be_written_is_said(api: Api) -> None:
    api.service.fails = UnavailableError("the disk is full; the job was not taken")
    answer = api.http().post("/v1/jobs", json=JOB)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the disk is full; the job was not taken"
    assert "Retry-After" in answer.headers


def test_another_users_job_is_not_there(api: Api) -> None:
    number = submit(api, "ada")["number"]
    bob = api.http("bob")
    assert bob.get("/v1/jobs").json()["jobs"] == []
    for answer in (
        bob.get(f"/v1/jobs/{number}"),
        bob.delete(f"/v1/jobs/{number}"),
        bob.post(f"/v1/jobs/{number}/resize", json={"least": 1, "most": 2}),
        bob.get(f"/v1/jobs/{number}/logs"),
        bob.get(f"/v1/jobs/{number}/events", params={"follow": True}),
    ):
        assert answer.status_code == 404
    assert api.http("ada").get(f"/v1/jobs/{number}").json()["job"]["status"] == "waiting"


def test_pages_follow_each_other_without_gap(api: Api) -> None:
    for _ in range(5):
        submit(api)
    http, cursor, found = api.http("ada"), None, []
    while True:
        page = http.get("/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found += [job["number"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == [5, 4, 3, 2, 1]


def test_filters(api: Api) -> None:
    submit(api, pool="a")
    submit(api, pool="b")
    api.do(lambda: api.service.start(1))
    http = api.http("ada")

    def numbers(**query: Any) -> list[int]:
        return [job["number"] for job in http.get("/v1/jobs", params=query).json()["jobs"]]

    assert numbers(status=["running", "failed"]) == [1]
    assert numbers(pool="b") == [2]
    assert numbers(name="other") == []
    assert http.get("/v1/jobs", params={"cursor": "x"}).status_code == 422


def test_a_misspelt_parameter_is_refused(api: Api) -> None:
    problem = api.http().get("/v1/jobs", params={"stauts": "running"}).json()
    assert problem["errors"] == [
        {"field": "stauts", "problem": "unknown parameter (did you mean 'status'?)"}
    ]


def test_stop_and_resize(api: Api) -> None:
    number = submit(api)["number"]
    http = api.http("ada")
    resized = http.post(f"/v1/jobs/{number}/resize", json={"least": 2, "most": 4})
    assert resized.json()["asked"] == "2..4"
    assert http.delete(f"/v1/jobs/{number}").json()["status"] == "cancelled"
    assert http.delete(f"/v1/jobs/{number}").status_code == 200
    late = http.post(f"/v1/jobs/{number}/resize", json={"least": 2, "most": 4})
    assert late.status_code == 409
    backwards = http.post(f"/v1/jobs/{number}/resize", json={"least": 4, "most": 2})
    assert backwards.status_code == 422


def test_a_forecast_submits_nothing(api: Api) -> None:
    answer = api.http().post("/v1/forecast", json={**JOB, "duration": "2h"})
    assert answer.json()["finish"] == 7200.0
    assert not api.service.entries


def test_whoever_is_no_administrator_changes_nothing_of_the_cluster(api: Api) -> None:
    ada, root = api.http("ada"), api.http("root")
    asked = [
        ("POST", "/v1/nodes/n1/drain", None),
        ("PUT", "/v1/pools/vision", {"quotas": {"cpu": {"reservation": 2}}}),
        ("DELETE", "/v1/pools/default", None),
        ("PUT", "/v1/policy", {"name": "fifo"}),
        ("POST", "/v1/tokens", {"name": "t", "user": "ada"}),
    ]
    for method, path, body in asked:
        assert ada.request(method, path, json=body).status_code == 403, path
        assert root.request(method, path, json=body).is_success, path
    assert [token["name"] for token in ada.get("/v1/tokens").json()] == ["ada", "t"]
