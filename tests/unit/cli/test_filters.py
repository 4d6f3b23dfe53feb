"""Filters of `ps`, `stop`, `wait` and `logs`; `status`, `rerun` and templates."""

import json
import re
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from muster.wire.api.job_relations import ParentRecord
from muster.wire.api.records import StatusRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import HOUR, Lab, a_job, a_waiting_job, an_ended_job


@pytest.fixture
def three(lab: Lab) -> Lab:
    """One that runs and one that waits with a label, and one without."""
    lab.put(
        a_job(12, "bert-a", labels={"run": "x"}),
        a_waiting_job(13, "bert-b", labels={"run": "x"}, position=1),
        a_job(14, "gpt"),
    )
    return lab


def listed(*words: str) -> list[str]:
    return [job["name"] for job in json.loads(muster("ps", "-o", "json", *words).stdout)]


def test_jobs_are_listed_by_label_and_pattern(three: Lab) -> None:
    assert listed("-l", "run=x") == ["bert-a", "bert-b"]
    assert listed("-l", "run", "--name", "*-b") == ["bert-b"]
    assert listed("--status", "waiting") == ["bert-b"]
    assert listed("--since", "30m") == []
    assert sorted(listed("--before", "30m")) == ["bert-a", "bert-b", "gpt"]


def test_a_filter_that_is_none_is_told_with_its_option(lab: Lab) -> None:
    assert "--status: 'runing' is not a status (did you mean 'running'?)" in muster(
        "ps", "--status", "runing", code=1
    ).stderr + str(muster("ps", "--status", "runing", code=1).exception)
    problem = muster("ps", "--since", "last week", code=1).exception
    assert "--since: 'last week' is neither a time ago, such as 2h, nor a date" in str(problem)
    begun = muster("ps", "--status", "run", code=1).exception
    assert "(did you mean 'running'?)" in str(begun)


def test_today_and_yesterday_begin_at_midnight(lab: Lab) -> None:
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    before = (midnight - timedelta(days=1)).timestamp() + 60
    lab.put(a_job(12, "new", submitted=time.time()), a_job(13, "old", submitted=before))
    assert listed("--since", "today") == ["new"]
    assert sorted(listed("--since", "yesterday")) == ["new", "old"]
    assert listed("--before", "today") == ["old"]


def test_a_pool_that_is_none_is_told_where_nothing_matches(three: Lab) -> None:
    done = muster("ps", "--pool", "reserch")
    assert "no pool 'reserch' (did you mean 'research'?)" in done.stderr
    assert "no pool" not in muster("ps", "--pool", "research").stderr
    assert "no pool 'reserch'" in muster("stop", "-y", "--pool", "reserch").stderr


def test_waiting_for_nothing_says_so(three: Lab) -> None:
    assert "no live job matches; nothing to wait for" in muster("wait", "-l", "run=z").stderr


def test_jobs_that_match_are_stopped_together_and_others_run_on(three: Lab) -> None:
    out = muster("stop", "-l", "run=x", "-y", "-u", "ada").stdout
    assert out.splitlines() == ["job 13 (bert-b): cancelled", "job 12 (bert-a): cancelled"]
    assert three.service.entries[14].record.status == "running"


def test_all_are_stopped_only_after_a_question(three: Lab, answering: None) -> None:
    asked = muster("stop", "--all", "-u", "*", code=1, input="n\n")
    assert "Stop 3 jobs: " in asked.stderr
    assert "nothing was stopped" in asked.stderr
    assert muster("stop", "--all", "-u", "*", input="y\n").stdout.count("cancelled") == 3


def test_stop_without_jobs_or_a_filter_does_nothing(three: Lab) -> None:
    assert "name jobs, or filter them" in str(muster("stop", "-y", code=1).exception)
    assert "give jobs or a filter, not both" in str(muster("stop", "12", "--all", code=1).exception)
    assert "no live job matches" in muster("stop", "-y", "-l", "run=z").stderr


def test_the_logs_of_several_jobs_begin_with_their_names(lab: Lab) -> None:
    lines = muster("logs", "--name", "resnet*", "-u", "*", "-n", "1").stdout.splitlines()
    assert lines
    assert all(line.startswith("resnet50 2/worker-") for line in lines)


def test_places_in_the_queue_and_reasons_to_be_skipped_are_shown(lab: Lab) -> None:
    parent = ParentRecord(12, "prep", "ok")
    skipped = an_ended_job(13, "train", "skipped", reason="job 12 (prep) failed", after=(parent,))
    lab.put(a_waiting_job(14, "waits", position=3), skipped)
    lines = muster("ps", "-a").stdout.splitlines()
    assert lines[0].split()[4] == "QUEUE"
    assert lines[1].split()[4] == "3"
    assert lines[2].endswith("job 12 (prep) failed")


def test_a_tree_has_each_job_below_the_one_it_waits_for(lab: Lab) -> None:
    def after(number: int, met: bool = False) -> ParentRecord:
        return ParentRecord(number, str(number), "ok", met)

    lab.put(
        a_job(1, "prep"),
        a_waiting_job(2, "left", after=(after(1),)),
        a_waiting_job(3, "right", after=(after(1),)),
        a_waiting_job(4, "join", after=(after(2), after(3))),
        a_job(5, "alone", after=(after(99, met=True),)),
    )
    names = [line.split("  ")[1] for line in muster("ps", "--tree").stdout.splitlines()[1:]]
    drawn = [
        line.strip()[2:].strip().partition(" research")[0].rstrip()
        for line in muster("ps", "--tree").stdout.splitlines()[1:]
    ]
    assert [line.lstrip() for line in drawn] == ["prep", "├ left", "└ right", "└ join", "alone"], names


def test_a_long_chain_is_a_tree_too(lab: Lab) -> None:
    chain = [a_waiting_job(n, f"j{n}", after=(ParentRecord(n - 1, ""),)) for n in range(1, 1500)]
    lab.put(*chain)
    assert len(muster("ps", "--tree", "-n", "2000").stdout.splitlines()) == 1500


def test_the_status_tells_what_needs_attention(lab: Lab) -> None:
    now = time.time()
    failed = an_ended_job(
        8, "broken", "failed", ended=now - 60, error="worker-0 died\nlog", user="root"
    )
    old = an_ended_job(7, "older", "failed", ended=now - 30 * HOUR, error="long ago", user="root")
    waits = a_waiting_job(9, "patient", submitted=now - 2 * HOUR, position=1, user="root")
    rescue = an_ended_job(
        6, "rescue", "skipped", ended=now, user="root", after=(ParentRecord(5, "x", "failed"),)
    )
    lab.put(failed, old, waits, rescue)
    out = muster("status").stdout
    assert re.search(r"job 8 \(broken\) failed \S+ ago: worker-0 died \(muster show 8\)", out)
    assert "job 9 (patient) has waited for 2h" in out
    assert "older" not in out
    assert "rescue" not in out
    assert [job["name"] for job in json.loads(muster("status", "-o", "json").stdout)["jobs"]] == [
        "patient"
    ]


def test_nobody_is_told_of_lateness_that_was_foreseen_nor_of_how_a_session_ended(lab: Lab) -> None:
    now = time.time()
    lab.put(
        a_job(
            1, "within", user="root", predicted_finish=now - 5, finish_low=now - 9, finish_high=now + 60
        ),
        a_job(
            2,
            "beyond",
            user="root",
            predicted_finish=now - 60,
            finish_low=now - 90,
            finish_high=now - 5,
        ),
        a_job(3, "session", user="root", predicted_finish=now - 60, interactive=True),
        an_ended_job(
            4, "left", "failed", user="root", ended=now - 9, error="exit code 3", interactive=True
        ),
    )
    notes = json.loads(muster("status", "--json").stdout)["attention"]
    assert [note.split(" is late")[0] for note in notes] == ["job 2 (beyond)"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a home of its own."""
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def submitted(lab: Lab) -> tuple[str, ...]:
    return lab.service.entries[max(lab.service.entries)].job.command


def test_a_job_is_saved_as_a_template_and_run_with_more_words(lab: Lab, here: Path) -> None:
    request = {"name": "t", "command": ["echo", "a b"], "devices": "2", "folder": "/nowhere"}
    lab.service.requests[12] = request | {"env": {"TOKEN": "secret"}}
    muster("template", "save", "12", "bert")
    shown = muster("template", "show", "bert").stdout
    assert "secret" not in shown
    assert "folder" not in shown
    assert muster("template", "ls").stdout.splitlines()[1].startswith("bert  echo 'a b'")
    muster("run", "-y", "-t", "bert", "--env", "TOKEN=x", "--", "--lr", "0.1")
    assert submitted(lab) == ("echo", "a b", "--lr", "0.1")


def test_a_projects_template_goes_before_the_users(lab: Lab, here: Path) -> None:
    lab.service.requests[12] = {"name": "t", "command": ["echo", "mine"]}
    muster("template", "save", "12", "bert")
    lab.service.requests[12] = {"name": "t", "command": ["echo", "ours"]}
    muster("template", "save", "12", "bert", "--project")
    (here / "deep").mkdir()
    muster("run", "-y", "-t", "bert")
    assert submitted(lab) == ("echo", "ours")
    wrong = muster("run", "-y", "-t", "brt", code=2).stderr
    assert "no template 'brt' (did you mean 'bert'?)" in wrong


def test_a_job_is_run_again_with_changes(lab: Lab, here: Path) -> None:
    lab.service.requests[12] = {
        "name": "resnet50",
        "command": ["sh", "train.sh", "--lr", "0.1"],
        "folder": str(here),
        "devices": "2",
        "labels": {"run": "a"},
        "origin": {"env": {"PATH": "/usr/bin:/bin"}, "host": "there"},
    }
    muster("rerun", "12", "-y", "-d", "4", "-l", "run=b", "--", "--lr", "0.2")
    job = lab.service.entries[max(lab.service.entries)].job
    assert job.command == ("sh", "train.sh", "--lr", "0.2")
    assert (job.workers.most, job.labels, job.name) == (4, (("run", "b"),), "resnet50-2")
    assert (job.program.folder, job.program.origin.host) == (str(here), "there")


def test_the_arguments_of_a_shell_command_are_not_guessed(lab: Lab, here: Path) -> None:
    lab.service.requests[12] = {"name": "a", "command": "a && b", "shell": True, "folder": str(here)}
    assert "run by a shell" in str(muster("rerun", "12", "-y", "--", "x", code=1).exception)


def test_the_status_of_a_daemon_that_starts_is_not_that_of_an_empty_cluster(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it stands it answers this request alone, without what it does not know yet."""
    stands = lab.service.status
    answers = [StatusRecord("0", "", "starting", 0.0, "", 0, 0, 0, 0, 0, 0.0)]

    async def status() -> StatusRecord:
        return answers.pop() if answers else await stands()

    monkeypatch.setattr(lab.service, "status", status)
    told = muster("status")
    assert told.stderr == (
        "muster: the daemon is starting; waiting until it knows its devices and jobs\n"
    )
    assert "policy muster" in told.stdout
    assert muster("status").stderr == ""
