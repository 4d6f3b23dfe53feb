"""The page about the API says what it does."""

import json
import re
import threading
import time
from pathlib import Path

from tests.unit.api.harness import Api

PAGE = (Path(__file__).parents[3] / "docs/reference/api.md").read_text(encoding="utf-8")


def live(api: Api) -> None:
    """Wait for a job, and let it run to its end."""
    until = time.monotonic() + 30
    while not api.do(lambda: api.service.entries) and time.monotonic() < until:
        time.sleep(0.01)
    api.do(lambda: api.service.start(1))
    api.do(lambda: api.service.print(1, "1/worker-0", b"step 1\n"))
    api.do(lambda: api.service.end(1))


def test_every_path_and_every_error_is_on_the_page(api: Api) -> None:
    description = api.http().get("/openapi.json").json()
    for path in description["paths"]:
        # Two that differ in their last word share a row.
        assert path in PAGE or f"…/{path.rpartition('/')[2]}" in PAGE, path
    for status in description["components"]["responses"]:
        assert f"| {status} |" in PAGE, status


def test_everything_is_described(api: Api) -> None:
    description = api.http().get("/openapi.json").json()
    for operations in description["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["description"]
            assert {"401", "422", "429", "500", "503"} <= set(operation["responses"])
    fields = description["components"]["schemas"]["JobRecord"]["properties"]
    assert fields["workers"]["description"] == "Current workers."


def test_the_refusal_of_the_page(api: Api) -> None:
    example = re.search(r"api --json '(.*)' \$MUSTER_URL/v1/jobs\n(\{\"type\".*)\n", PAGE)
    assert example is not None
    answer = api.http().post("/v1/jobs", json=json.loads(example[1]))
    assert answer.json() == json.loads(example[2])


def test_the_python_of_the_page(api: Api) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    job = threading.Thread(target=lambda: live(api))
    job.start()
    with api.listening() as url:
        mine = code[1].replace("Client()", f"Client({url!r}, 'root')")
        said: list[object] = []
        exec(compile(mine, "api.md", "exec"), {"print": said.append})
    job.join(30)
    assert said == ["1/worker-0 | step 1", "succeeded"]
