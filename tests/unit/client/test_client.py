"""The client: what a user of it meets, with an API in the same process or behind a real socket."""

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from muster.api.door.limits import Limits
from muster.client import Client, ClientError, Handle, JobSelection
from muster.client.sending.job_record import file_mapping
from tests.unit.api.harness import Api, running_api

JOB = {"name": "resnet50", "command": "python train.py"}


def later(api: Api, number: int, *says: tuple[str, bytes]) -> threading.Thread:
    """Let the job's tasks print these, then end."""

    def act() -> None:
        for log, data in says:
            api.do(lambda log=log, data=data: api.service.print(number, log, data))  # type: ignore[misc]
        api.do(lambda: api.service.end(number))

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_submit_wait_and_look(api: Api) -> None:
    handle = api.client("ada").submit(JOB)
    assert (handle.number, handle.name, handle.record().status) == (1, "resnet50", "waiting")
    api.do(lambda: api.service.start(1))
    thread = later(api, 1)
    assert handle.wait(timeout=30).status == "succeeded"
    thread.join()
    assert repr(handle) == "<job 1 'resnet50', succeeded>"


def test_waiting_ends_when_the_time_is_over(api: Api) -> None:
    handle = api.client().submit(JOB)
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0.05)
    with api.listening() as url, Client(url, "root") as client, pytest.raises(TimeoutError):
        client.handle(1).wait(timeout=0.05)


def test_waiting_goes_on_where_no_stream_is_free() -> None:
    with running_api(Limits(streams=0)) as api:
        handle = api.client().submit(JOB)
        thread = later(api, 1)
        assert handle.wait(timeout=30).status == "succeeded"
        thread.join()


def test_a_file_is_submitted_as_it_is_written(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "007.yaml").write_text(
        "command: [python, train.py, --flag, no]\nfolder: work\nmodel: ./tiny.yaml\n"
        "env: {SEED: 007, SECRET: , GIVEN: ~}\n"
    )
    (tmp_path / "tiny.yaml").write_text(
        "operations: 1M\nactivations: 1kB\nlayers: {dense: 1}\nsamples: 100\nsample_bytes: 4B\n"
        "batch: 8\ntensors:\n  - [w, 4kB, 1]\n"
    )
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("SECRET", "mine")
    api.client().submit(tmp_path / "007.yaml", env={"GIVEN": "here"})
    job = api.service.entries[1].job
    assert (job.name, job.command) == ("007", ("python", "train.py", "--flag", "no"))
    assert job.program.folder == str(tmp_path / "work")
    assert dict(job.program.environ) == {"SEED": "007", "SECRET": "mine", "GIVEN": "here"}
    assert job.model is not None
    assert job.model.name == "tiny"


def test_a_job_runs_where_it_is_submitted_with_this_pythons_environment(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Activated or not: `python` is the one that submits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    (tmp_path / "job.yaml").write_text("command: python train.py\n")
    for number, job in enumerate((JOB, "job.yaml"), 1):
        api.client().submit(job)
        program = api.service.entries[number].job.program
        assert program.folder == str(tmp_path)
        assert program.origin.executable == f"{sys.prefix}/bin/python"
        environ = dict(program.origin.environ)
        assert environ["PATH"].split(":") == [f"{sys.prefix}/bin", "/usr/bin", "/bin"]
        assert environ["VIRTUAL_ENV"] == sys.prefix


def test_a_job_can_have_a_folder_of_its_own(api: Api) -> None:
    api.client().submit(JOB, folder=None)
    assert api.service.entries[1].job.program.folder == ""


def test_what_this_machine_lacks_is_told_before_anything_is_sent(api: Api, tmp_path: Path) -> None:
    for more, field in (({"command": "no-such-program"}, "command"), ({"folder": "/no"}, "folder")):
        with pytest.raises(ClientError) as caught:
            api.client().submit({**JOB, **more})
        assert [each.field for each in caught.value.errors] == [field]
    assert not api.service.entries


def test_another_machine_may_have_what_this_one_lacks(api: Api) -> None:
    with api.listening() as url, Client(url, "root") as client:
        client.submit({**JOB, "command": "no-such-program", "folder": "/not/here"})
    assert api.service.entries[1].job.program.folder == "/not/here"


def test_a_variable_that_nobody_gives_is_told_before_anything_is_sent(api: Api) -> None:
    with pytest.raises(ClientError) as caught:
        api.client().submit({**JOB, "env": {"MISSING_HERE": None}})
    assert [each.field for each in caught.value.errors] == ["env.MISSING_HERE"]
    assert not api.service.entries


def test_everything_wrong_with_a_job_is_in_the_error(api: Api) -> None:
    with pytest.raises(ClientError) as caught:
        api.client().submit({"comand": "python train.py", "devices": "8..1"})
    error = caught.value
    assert (error.status, error.title) == (422, "Unprocessable Content")
    assert [each.field for each in error.errors] == ["comand", "devices", "command"]
    assert "devices: '8..1' runs backwards (did you mean '1..8'?)" in str(error)


def test_a_script_is_run_by_this_python_in_this_folder(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.chdir(tmp_path)
    api.client().submit_script("train.py", "--lr", "0.1", devices="1..4", pool="vision")
    job = api.service.entries[1].job
    assert job.command == (sys.executable, str(script), "--lr", "0.1")
    assert (job.name, job.pool, job.program.folder) == ("train", "vision", str(tmp_path))
    assert (job.workers.least, job.workers.most) == (1, 4)
    with pytest.raises(ClientError, match="no file"):
        api.client().submit_script("other.py")


class Training:
    """What is submitted as the script that it is in."""

    ran = False

    def run(self) -> None:
        self.ran = True


def test_a_training_is_submitted_as_its_script_and_run_inside_the_job(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "mine.py"
    script.write_text("")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    monkeypatch.setattr(sys, "argv", ["mine.py", "--epochs", "3"])
    training = Training()
    handle = api.client().submit(training, devices="1..4")
    assert api.service.entries[1].job.command == (sys.executable, str(script), "--epochs", "3")
    assert (handle.name, training.ran) == ("mine", False)
    monkeypatch.setenv("MUSTER_JOB", "mine")
    inside = Client("http://127.0.0.1:1").submit(training)
    assert training.ran
    assert inside.wait().status == "succeeded"
    assert list(inside.logs()) == []


def test_a_training_that_is_in_no_script_cannot_be_submitted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with pytest.raises(ClientError, match=r"muster run train\.py"):
        api.client().submit(Training())


def test_jobs_come_page_by_page(api: Api) -> None:
    client = api.client("ada")
    for _ in range(5):
        client.submit(JOB)
    api.do(lambda: api.service.start(4))
    assert [job.number for job in client.jobs(page=2)] == [5, 4, 3, 2, 1]
    assert [job.number for job in client.jobs(statuses=("running",))] == [4]
    assert list(client.jobs(user="bob")) == []


def test_the_logs_of_all_tasks_say_whose_line_it_is(api: Api) -> None:
    handle = api.client().submit(JOB)
    api.do(lambda: api.service.start(1, workers=2))
    api.do(lambda: api.service.print(1, "1/worker-1", "größer\nlast".encode()))
    client = api.client()
    assert list(client.logs(1)) == ["1/worker-1 | größer", "1/worker-1 | last"]
    assert list(client.logs(1, "worker-1")) == ["größer", "last"]
    thread = later(api, 1, ("1/worker-0", b"a\nb"), ("1/worker-1", b" one\n"))
    heard = list(handle.logs())
    thread.join()
    assert sorted(heard) == [
        "1/worker-0 | a",
        "1/worker-0 | b",
        "1/worker-1 | größer",
        "1/worker-1 | last one",
    ]
    assert list(handle.logs("1/worker-0")) == ["a", "b"]
    with pytest.raises(ClientError, match="has no log of 'worker-7'"):
        client.logs(1, "worker-7")


def test_administration(api: Api) -> None:
    client = api.client()
    assert client.drain("n1").state == "draining"
    assert [node.state for node in client.nodes()] == ["draining"]
    assert client.resume("n1").state == "up"
    made = client.set_pool("vision", quotas={"cpu": {"reservation": 2, "limit": 4}}, shared=True)
    assert (made.quotas[0].reservation, made.quotas[0].limit, made.shared) == (2, 4, True)
    assert [pool.name for pool in client.pools()] == ["default", "vision"]
    client.remove_pool("vision")
    assert client.set_policy("fifo").name == client.policy().name == "fifo"
    secret = client.create_token("t", "eve").secret
    assert secret is not None
    assert api.client(secret).submit(JOB).record().user == "eve"
    assert [token.secret for token in client.tokens()] == [None] * 4
    client.revoke_token("t")
    assert client.status().policy == "fifo"
    assert "muster_pending_jobs" in client.metrics()
    assert client.forecast(JOB).starts_now
    assert client.resize(1, 2).asked == "2..2"
    assert client.stop("resnet50").status == "cancelled"
    assert [change.kind for change in client.events(1)] == ["Submitted", "Reshaped", "Ended"]


def test_a_name_with_a_slash_asks_for_that_name(api: Api) -> None:
    with pytest.raises(ClientError) as caught:
        api.client().job("../nodes?x=")
    assert caught.value.status in {404, 422}


def test_nobody_answers(api: Api) -> None:
    with api.listening() as url:
        pass
    client = Client(url, "root", patience=0.0)
    with pytest.raises(ClientError) as caught:
        client.status()
    assert caught.value.status == 0
    assert "muster up" in str(caught.value)


class Flaky(httpx.BaseTransport):
    """Breaks off this many answers after the daemon has done what was asked."""

    def __init__(self, inner: httpx.BaseTransport, breaks: int) -> None:
        self.inner, self.breaks = inner, breaks

    def close(self) -> None:
        self.inner.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.inner.handle_request(request)
        if self.breaks:
            self.breaks -= 1
            answer.read()
            answer.close()
            raise httpx.ReadError("broken", request=request)
        return answer


def test_a_submission_whose_answer_is_lost_is_made_once(api: Api) -> None:
    with api.listening() as url:
        client = Client(url, "root", transport=Flaky(httpx.HTTPTransport(), 2))
        assert client.submit(JOB).number == 1
        assert len(api.service.entries) == 1
        client.close()


def test_what_is_not_safe_to_do_twice_is_not_tried_again(api: Api) -> None:
    with api.listening() as url:
        client = Client(url, "root", transport=Flaky(httpx.HTTPTransport(), 1))
        with pytest.raises(ClientError):
            client.create_token("t", "ada")
        assert "t" in {token.name for token in client.tokens()}
        client.close()


class Cut(httpx.BaseTransport):
    """Cuts a stream off after each event, and notes where it went on."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner, self.marks = inner, list[str | None]()

    def close(self) -> None:
        self.inner.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.inner.handle_request(request)
        if "follow" in request.url.params:
            self.marks.append(request.headers.get("Last-Event-ID"))
            answer.read()
            answer.close()
            head = answer.text.split("\n\n")[:2]
            whole = answer.text if len(self.marks) > 3 else "\n\n".join(head) + "\n\n"
            return httpx.Response(200, content=whole, request=request)
        return answer


def test_a_stream_that_breaks_goes_on_where_it_was(api: Api) -> None:
    submitted = api.client().submit(JOB)
    api.do(lambda: api.service.start(1))
    api.do(lambda: api.service.end(1))
    with api.listening() as url:
        transport = Cut(httpx.HTTPTransport())
        client = Client(url, "root", transport=transport)
        kinds = [change.kind for change in client.events(submitted.number, follow=True)]
        client.close()
    assert kinds == ["Submitted", "Started", "Ended"]
    assert transport.marks == [None, "1", "2", "3"]


def test_a_daemon_that_is_slow_for_us_is_waited_for() -> None:
    with running_api(Limits(rate=20.0, burst=1)) as api:
        client = api.client()
        assert [client.policy().name for _ in range(2)] == ["muster"] * 2


def test_a_handle_of_an_earlier_job(api: Api) -> None:
    api.client().submit(JOB)
    handle = api.client().handle("resnet50")
    assert isinstance(handle, Handle)
    assert handle.resize(2, 4).asked == "2..4"
    assert handle.stop().status == "cancelled"


def test_what_is_no_problem_document_is_an_error_all_the_same() -> None:
    def proxy(request: httpx.Request) -> httpx.Response:
        return httpx.Response(502, text="<html>bad gateway</html>")

    with pytest.raises(ClientError) as caught:
        Client("http://127.0.0.1:1", transport=httpx.MockTransport(proxy)).status()
    assert caught.value.status == 502
    assert json.dumps(caught.value.detail)


def test_jobs_that_come_after_each_other_are_submitted_in_one_request(api: Api) -> None:
    client = api.client("ada")
    prep = client.submit({"command": "true", "folder": None})
    client.submit({"command": "true", "folder": None, "name": "next"}, after=[prep])
    client.submit({"command": "true", "folder": None, "name": "last"}, after={prep: "any"})
    jobs = [entry.job for entry in api.service.entries.values()]
    assert [[(each.job, each.when) for each in job.after] for job in jobs] == [
        [],
        [(str(prep.number), "ok")],
        [(str(prep.number), "any")],
    ]
    both = {"pool": "other", "jobs": {"b": {"command": "true", "after": "a"}, "a": {"command": "true"}}}
    handles = client.submit_all(both)
    assert [handle.name for handle in handles] == ["a", "b"]
    assert [api.service.entries[handle.number].job.pool for handle in handles] == ["other", "other"]


def test_jobs_are_stopped_by_a_selection_and_not_by_an_oversight(api: Api) -> None:
    client = api.client("ada")
    for run in "xxy":
        client.submit({"command": "true", "folder": None, "name": f"job-{run}", "labels": {"run": run}})
    api.service.put(
        *(replace(e.record, labels=dict(e.job.labels)) for e in api.service.entries.values())
    )
    stopped = client.stop_all(JobSelection(labels=["run=x"]))
    assert len(stopped) == 2
    with pytest.raises(ClientError, match="the request is not valid"):
        client.stop_all(JobSelection())
    assert [job.status for job in client.stop_all()] == ["cancelled"]


def test_a_client_says_where_it_leads_and_keeps_its_token() -> None:
    assert repr(Client("http://gpu0:7077", "secret")) == "<muster client of http://gpu0:7077>"


def test_a_script_in_place_of_a_job_file_is_told_what_to_write(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    with pytest.raises(ClientError, match=r"not a mapping.*command: python .*train\.py"):
        file_mapping(script)
