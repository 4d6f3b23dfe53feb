"""What users of other command lines expect: help, version, completion, a manual, options for all."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from muster import __version__
from muster.cli.main import app
from muster.cli.offline.man_page import man_page
from muster.files.job.job_entries import JobEntry
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab, a_waiting_job, an_ended_job
from tests.unit.cli.test_help import COMMANDS

ROOT = get_command(app)
SPELT = {"command": "TARGET", "env": "--env", "labels": "--label", "origin": None}
"""Fields that are not an option of their own name: what to type instead; None: filled in."""


def found(words: list[str]) -> Any:
    command: Any = ROOT
    for word in words:
        command = command.commands[word]
    return command


def options(command: Any) -> dict[str, Any]:
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}


def test_every_field_of_a_job_file_is_an_option_of_run() -> None:
    given = options(found(["run"]))
    for field in JobEntry.model_fields:
        flag = SPELT.get(field, f"--{field.replace('_', '-')}")
        assert flag in (None, "TARGET") or flag in given, f"{field} needs an option, such as {flag}"


OWN = [words for words in COMMANDS if words[0] != "compat"]
"""All but those that read Slurm's options, where -h leaves out the header."""


@pytest.mark.parametrize("words", [[], *OWN], ids=" ".join)
def test_h_is_help_everywhere(words: list[str]) -> None:
    assert "Usage: muster" in muster(*words, "-h").stdout


def test_d_is_a_number_of_devices_everywhere() -> None:
    meanings = {
        " ".join(words): each.opts
        for words in OWN
        for name, each in options(found(words)).items()
        if name == "-d"
    }
    assert meanings
    assert all("--devices" in opts for opts in meanings.values()), meanings


def test_short_options_mean_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for words in OWN:
        for name, each in options(found(words)).items():
            if len(name) == 2 and each.opts[0] != name:
                meanings.setdefault(name, set()).add(each.opts[0])
    assert {name: longs for name, longs in meanings.items() if len(longs) > 1} == {}


def test_the_version_is_printed() -> None:
    assert muster("--version").stdout == f"muster {__version__}\n"


def test_fields_given_as_options_reach_the_daemon(lab: Lab, tmp_path: Path) -> None:
    words = ["run", "-y", "--no-preemptible", "--any-of", "V100,P100", "--gang", "1", "-d", "2..4"]
    words += ["--locality", "node", "--step", "{compute: 250ms, gradients: 100MB}", "--grace", "5s"]
    words += ["--at-most-once", "--failures", "2", "-l", "team=vision", "--after", "bert:any"]
    muster(*words, "--shell", "--set", "command=a && b", "--", "x")
    job = lab.service.entries[max(lab.service.entries)].job
    assert (job.preemptible, job.device_types, job.workers.gang) == (False, ("V100", "P100"), 1)
    assert (job.locality.widest.word, job.program.grace, job.program.failures) == ("node", 5.0, 2)
    assert (job.program.at_most_once, job.labels) == (True, (("team", "vision"),))
    assert [(each.job, each.when) for each in job.after] == [("bert", "any")]
    assert job.command == ("a && b",)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = muster("completion", "bash").stdout
    program = tmp_path / "muster"
    program.write_text(
        f"#!{sys.executable}\nfrom muster.cli.main import main\nmain()\n", encoding="utf-8"
    )
    program.chmod(0o755)
    typed = f"""{script}
for line in "muster templ" "muster ps --stat"; do
  COMP_WORDS=($line); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
  _muster_completion muster; echo "${{COMPREPLY[@]}}"
done
"""
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "MUSTER_HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", typed], capture_output=True, text=True, env=environ, check=True
    )
    assert done.stdout.split() == ["template", "--status"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_that_asks_the_program(shell: str) -> None:
    assert f"_MUSTER_COMPLETE=complete_{shell}" in muster("completion", shell).stdout


def test_job_names_are_completed_and_a_silent_daemon_completes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from muster import client
    from muster.cli.jobs.complete import complete_jobs

    lab.put(
        a_waiting_job(13, "bert"), an_ended_job(9, "beta", "failed"), an_ended_job(8, "gpt", "failed")
    )
    monkeypatch.setattr(client, "Client", lambda **_: lab.client())
    assert [name for name, _ in complete_jobs("be")] == ["bert", "beta"]
    assert complete_jobs("1") == [("13", "bert, waiting")]
    monkeypatch.undo()
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))  # where no daemon is known
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:9")
    assert complete_jobs("be") == []


LIVE_ONLY = (
    *("stop", "attach", "exec", "resize", "forward", "hold", "release", "requeue", "priority"),
    *("until", "defrag"),
)


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        *((command, ["bert"]) for command in LIVE_ONLY),
        *((command, ["bert", "beta"]) for command in ("logs", "show", "why", "rerun")),
    ],
)
def test_what_changes_a_job_or_leads_into_it_is_offered_live_ones(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, command: str, offered: list[str]
) -> None:
    from muster import client

    lab.put(a_waiting_job(13, "bert"), an_ended_job(9, "beta", "failed"))
    monkeypatch.setattr(client, "Client", lambda **_: lab.client())
    asked = found([command])
    which = next(each for each in asked.params if each.name == "which")
    names = which.shell_complete(Context(asked), "be")
    assert [each.value for each in names] == offered


def test_the_manual_has_every_command_and_option() -> None:
    page = man_page(ROOT)
    plain = page.replace("\\-", "-")
    for words in COMMANDS:
        assert f".SS muster {' '.join(words)}" in plain, words
    for name in options(found(["run"])):
        assert name in plain or not name.startswith("-"), name


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_groff_formats_the_manual_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"],
        input=man_page(ROOT).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout.decode())
    assert "muster run train.py --after prep:ok" in text


def test_zsh_completes_at_the_first_question() -> None:
    """The file of an fpath is loaded by the question itself, and must answer it."""
    script = muster("completion", "zsh").stdout
    assert "loadautofunc" in script
    assert script.index('_muster_completion "$@"') < script.index("compdef _muster_completion muster")


@pytest.mark.parametrize("words", [[], ["run"], ["sweep"], ["sweep", "show"]], ids=" ".join)
def test_flags_are_shown_without_a_type(words: list[str]) -> None:
    assert "<bool>" not in muster(*words, "-h").stdout


def test_the_paragraphs_of_a_help_fill_the_terminal() -> None:
    """A sentence is not broken where its docstring happens to be."""
    lines = muster("cp", "-h", env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).stdout.splitlines()
    assert any("lead nowhere else but to its own folder and its checkpoints." in line for line in lines)


def test_json_is_short_for_the_output_of_that_name(lab: Lab) -> None:
    lab.put(a_waiting_job(13, "bert"))
    for words in (["ps"], ["show", "13"], ["status"], ["pool", "list"], ["sweep", "ls"], ["usage"]):
        long, short = muster(*words, "-o", "json").stdout, muster(*words, "--json").stdout
        assert long.lstrip()[0] in "[{", words
        assert short.lstrip()[0] == long.lstrip()[0], words


def test_json_after_two_dashes_is_the_scripts_own(lab: Lab) -> None:
    muster("run", "-y", "--", "echo", "--json")
    assert lab.service.entries[max(lab.service.entries)].job.command == ("echo", "--json")


def test_a_wrong_value_is_told_in_our_words(lab: Lab) -> None:
    told = " ".join(muster("ps", "-o", "yam", code=2).stderr.split())
    assert "Value error" not in told
    assert "'yam' is not one of" in told


def test_who_asks_for_yaml_is_told_what_there_is() -> None:
    told = " ".join(muster("rerun", "12", "-o", "yaml", code=2).stderr.replace("│", " ").split())
    assert "JSON is valid YAML: -o json; the job as a file: muster template save JOB NAME" in told
    told = " ".join(muster("ps", "-o", "yaml", code=2).stderr.replace("│", " ").split())
    assert "JSON is valid YAML: -o json" in told and "template" not in told
