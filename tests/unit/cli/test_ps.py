"""`muster ps` and `muster show`: what is listed, how it looks, and what is said under it."""

import json
import re
import time

import pytest

from muster.cli.render.table import table
from tests.unit.cli.invoke import invoke, muster
from tests.unit.cli.lab import Lab, a_job, a_waiting_job, an_ended_job

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def test_live_jobs_are_listed_with_figures_and_reasons(lab: Lab) -> None:
    heading, running, waiting = (" ".join(line.split()) for line in muster("ps").stdout.splitlines())
    assert heading == "ID NAME POOL STATUS WORKERS STEP LOSS AGE FINISH WHY"
    assert waiting == "13 bert research waiting 0/1..8 - - 1h00m unknown waiting.devices"
    assert running == (
        "12 resnet50 research running 3/1..8 1,240/5,000 0.04213 1h00m in 1h00m running.at_most"
    )


def test_columns_stand_under_their_headings(lab: Lab) -> None:
    lines = muster("ps", "-a").stdout.splitlines()
    for word in ("NAME", "POOL", "STATUS", "WHY"):
        start = lines[0].index(word)
        assert all(line[start - 2 : start] == "  " and line[start] != " " for line in lines[1:])
    for word in ("ID", "WORKERS", "STEP", "LOSS", "AGE", "FINISH"):
        end = lines[0].index(word) + len(word)
        assert all(line[end] == " " and line[end - 1] != " " for line in lines[1:])


def test_all_includes_what_is_over(lab: Lab) -> None:
    lines = muster("ps", "-a").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", "12", "13", "11", "10"]
    failed = next(line for line in lines if " failed " in line)
    assert re.search(r"30m\d\ds ago  worker-0 ended with code 3$", failed)
    assert re.search(r"30m\d\ds ago  -$", lines[-1])


def test_lists_are_narrowed_by_user_pool_and_number(lab: Lab) -> None:
    assert "cnn" in muster("ps", "-a", "-u", "bob").stdout
    assert len(muster("ps", "-a", "-u", "bob").stdout.splitlines()) == 2
    assert len(muster("ps", "-a", "--pool", "research").stdout.splitlines()) == 4
    assert len(muster("ps", "-a", "-n", "1").stdout.splitlines()) == 2


def test_the_wide_list_has_more_columns_and_the_reason_in_words(lab: Lab) -> None:
    heading, _, waiting = muster("ps", "-o", "wide").stdout.splitlines()
    assert {"USER", "DEVICES", "NODES", "RATE", "RESIZES", "PREEMPTED", "PAUSE"} < set(heading.split())
    assert waiting.endswith("not enough devices are free; asks 8, 2 free")


def test_json_is_the_records(lab: Lab) -> None:
    lab.put(a_waiting_job(loss=float("nan")), a_job())
    told = json.loads(muster("ps", "-o", "json").stdout)
    assert [job["number"] for job in told] == [12, 13]
    assert told[1]["loss"] is None
    assert told[0]["command"] == ["python", "train.py", "--lr", "0.1"]


def test_hints_are_for_people(lab: Lab, seen: None) -> None:
    assert muster("ps").stdout.splitlines()[-1] == "why: muster show 12 · logs: muster logs -f 12"
    assert muster("ps", "-n", "1").stdout.splitlines()[-2] == (
        "2 live: 1 running, 1 waiting; 2 ended; showing 1, next: muster ps -n 1 --page 2"
    )
    assert "muster show" not in muster("ps", "-o", "json").stdout
    lab.put(an_ended_job(14, "done", "succeeded"))
    assert muster("ps").stdout.splitlines()[-1] == "No active jobs; use -a for all."
    lab.put()
    assert muster("ps", "-a").stdout.splitlines()[-1] == "No jobs yet: muster run train.py"


def test_of_many_jobs_the_running_one_is_listed_and_all_are_counted(lab: Lab, seen: None) -> None:
    waiting = [a_waiting_job(number, f"w{number}") for number in range(2, 131)]
    ended = [an_ended_job(200 + number, f"e{number}", "succeeded") for number in range(1200)]
    lab.put(a_job(1, "runs"), *waiting, *ended)
    lines = muster("ps").stdout.splitlines()
    assert lines[1].split()[:2] == ["1", "runs"]
    assert lines[101:] == [
        "130 live: 1 running, 129 waiting; 1,200 ended; showing 100, next: muster ps --page 2",
        "why: muster show 1 · logs: muster logs -f 1",
    ]
    second = muster("ps", "--page", "2").stdout.splitlines()
    assert [line.split()[0] for line in second[1:31]] == [str(number) for number in range(31, 1, -1)]
    assert second[31] == "130 live: 1 running, 129 waiting; 1,200 ended; showing 30"
    assert len(muster("ps", "-a", "-n", "1500").stdout.splitlines()) == 1 + 1330 + 2


def test_the_next_page_is_one_of_the_same_list(lab: Lab, seen: None) -> None:
    said = muster("ps", "-a", "-u", "ada", "--pool", "research", "-n", "1").stdout
    assert "next: muster ps -a -u ada --pool research -n 1 --page 2" in said


def test_a_script_is_told_that_it_reads_a_page(lab: Lab) -> None:
    result = muster("ps", "-n", "1", "-o", "json")
    assert len(json.loads(result.stdout)) == 1
    assert (
        "2 live: 1 running, 1 waiting; 2 ended; showing 1, next: muster ps -n 1 --page 2"
        in result.stderr
    )
    assert muster("ps", "-o", "json").stderr == ""


def test_users_are_named_where_there_are_several(lab: Lab) -> None:
    assert "USER" not in muster("ps").stdout
    heading, *_, last = (line.split() for line in muster("ps", "-a").stdout.splitlines())
    assert heading[:3] == ["ID", "USER", "NAME"]
    assert last[:3] == ["10", "bob", "cnn"]


def test_without_a_terminal_there_are_no_hints(lab: Lab) -> None:
    assert "muster" not in muster("ps").stdout


def test_colours_are_for_terminals_and_can_be_refused(
    lab: Lab, seen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured = invoke(["ps"], color=True).stdout
    assert "\x1b[32mrunning\x1b[0m" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert invoke(["ps"], color=True).stdout == COLOUR.sub("", coloured)


def test_watching_prints_again_what_has_changed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(3))

    def later(seconds: float) -> None:
        moment = next(moments)
        if moment == 2:
            raise KeyboardInterrupt
        lab.put(*([a_waiting_job()] if moment == 0 else []))

    monkeypatch.setattr("muster.cli.watch.time.sleep", later)
    lab.put(an_ended_job(14, "done", "succeeded"), a_waiting_job())
    assert [line.split()[0] for line in muster("ps", "-w").stdout.splitlines()] == ["ID", "13", "ID"]


def test_a_late_job_is_said_to_be_late(lab: Lab) -> None:
    lab.put(a_job(predicted_finish=a_job().submitted - 1830))
    assert "late 1h30m" in muster("ps").stdout


def test_a_job_is_shown_with_everything_that_is_known(lab: Lab) -> None:
    text = muster("show", "resnet50").stdout
    for part in (
        "resnet50 (12), running",
        "command   python train.py --lr 0.1",
        "1..8 workers, resized live",
        "3 workers with 3 devices on n0, generation 2",
        "running.at_most: it has all it asked for",
        "step 1,240/5,000 (25%), epoch 3, loss 0.04213, 3,319 samples/s",
        "1 resize, 0 preemptions, training paused for 250 ms in total",
        "runs with 3 workers",
    ):
        assert part in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("worker-")] == [
        "worker-0",
        "worker-1",
        "worker-2",
    ]


def test_a_failed_job_shows_the_last_lines_of_its_log(lab: Lab) -> None:
    text = muster("show", "11").stdout
    assert "error     worker-0 ended with code 3\n            last line\n" in text


def test_a_job_that_is_not_there_is_not_found(lab: Lab) -> None:
    result = muster("show", "99", code=102)
    assert result.stderr == ("muster: you have no job '99'\n  see: muster ps -a\n")


def test_colours_do_not_move_columns() -> None:
    plain = table(("A", "B"), [("x", "1"), ("long", "22")])
    coloured = table(("A", "B"), [("\x1b[32mx\x1b[0m", "1"), ("long", "22")])
    assert COLOUR.sub("", coloured) == plain


def test_a_table_fits_the_terminal(
    lab: Lab, seen: None, monkeypatch: pytest.MonkeyPatch, width: int = 80
) -> None:
    """Columns that say the least are left out, and reasons are cut."""
    monkeypatch.setenv("COLUMNS", str(width))
    now = time.time()
    lab.put(
        a_job(12, "training-of-bert", finish_low=now + 60, finish_high=now + 7200),
        a_waiting_job(13, "b", position=1, start_low=now, predicted_start=now + 60),
        an_ended_job(9, "broken", "failed", error="TypeError: " + "x" * 200),
    )
    lines = [COLOUR.sub("", line) for line in muster("ps", "-a").stdout.splitlines()]
    assert all(len(line) <= width for line in lines[:-2]), lines
    assert "80% INTERVAL" not in lines[0]
    assert {"ID", "NAME", "STATUS", "QUEUE", "WORKERS", "FINISH", "WHY"} <= set(lines[0].split())
    wide = [COLOUR.sub("", line) for line in muster("ps", "-a", "-o", "wide").stdout.splitlines()]
    assert any(line.endswith("x" * 200) for line in wide)
    monkeypatch.setenv("COLUMNS", "200")
    assert "80% INTERVAL" in muster("ps", "-a").stdout
