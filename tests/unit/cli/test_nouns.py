"""`muster pool`, `node`, `policy` and `token`."""

import json
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from muster.cli.admin.deadline import seconds_until
from muster.cli.render.pool_table import pool_table
from muster.client.connecting.settings import ClientSettings, kept_settings, write_settings
from muster.files.errors import InputError
from muster.wire.api.foresight_records import AccuracyRecord
from muster.wire.api.records import ActRecord, LeavingRecord, PoolRecord, QuotaRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab, a_node


def words(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_what_to_tell_of_is_checked_with_its_option(lab: Lab) -> None:
    wrong = muster("notify", "add", "chat", "--webhook", "https://x.org/y", "--on", "startd", code=1)
    assert "--on: 'startd' is not a thing to tell of (did you mean 'started'?)" in str(wrong.exception)


def test_pools_are_listed_by_device_type(lab: Lab) -> None:
    assert words(muster("pool", "list").stdout) == [
        "POOL PARENT TYPE RESERVED SHARE LIMIT ENTITLED USED RUNNING WAITING",
        "research cluster cpu 4 2 6 5 3 1 1",
        "default cluster - 0 1 - 0 0 0 0",
    ]
    assert [pool["name"] for pool in json.loads(muster("pool", "list", "-o", "json").stdout)] == [
        "research",
        "default",
    ]


def test_a_pool_is_shown_with_its_live_jobs(lab: Lab) -> None:
    lines = words(muster("pool", "show", "research").stdout)
    assert lines[1].endswith("takes jobs their user")
    assert [line.split()[0] for line in lines[3:]] == ["ID", "13", "12"]
    assert "No active jobs." in muster("pool", "show", "default").stdout
    assert "pools: research, default" in muster("pool", "show", "reserch", code=102).stderr


def test_the_accuracy_of_a_pool_that_is_not_there_is_not_found(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"research": 0, "gone": 3}

    async def accuracy(*asked: Any) -> AccuracyRecord:
        return AccuracyRecord("finish", 0.0, counts.get(asked[-1], 0))

    monkeypatch.setattr(type(lab.service), "accuracy", accuracy)
    misspelt = muster("accuracy", "--pool", "reserch", code=102)
    assert misspelt.stdout == "" and "'reserch'" in misspelt.stderr and "research" in misspelt.stderr
    muster("accuracy", "--pool", "research")
    assert "there is no pool" not in muster("accuracy", "--pool", "gone").stderr


def test_what_is_not_given_of_a_quota_stays(lab: Lab) -> None:
    muster("pool", "set", "research", "--limit", "none", "--share", "cpu:3", "--shared")
    quotas = {"cpu": {"reservation": 4, "share": 3.0, "limit": None}}
    assert lab.requests[-1] == ("PUT", "/v1/pools/research", {"quotas": quotas, "shared": True})


def test_a_new_pool_begins_with_the_defaults(lab: Lab) -> None:
    muster("pool", "set", "vision", "--parent", "research", "--reservation", "2")
    quotas = {"cpu": {"reservation": 2, "share": 1.0, "limit": None}}
    assert lab.requests[-1] == (
        "PUT",
        "/v1/pools/vision",
        {"parent": "research", "quotas": quotas},
    )


def test_a_part_is_of_every_type_and_leaves_the_rest_as_it_is(lab: Lab) -> None:
    nodes = [a_node(device_type="cpu"), a_node("n1", device_type="V100")]
    lab.service.node_records = {node.name: node for node in nodes}
    muster("pool", "set", "research", "--reservation", "25%", "--limit", "V100:50%")
    quotas = lab.requests[-1][2]["quotas"]
    assert {kind: quota["reservation_part"] for kind, quota in quotas.items()} == {
        "cpu": 0.25,
        "V100": 0.25,
        "*": 0.25,
    }
    assert (quotas["cpu"]["limit"], quotas["cpu"]["share"]) == (6, 2.0), "as before"
    assert quotas["V100"]["limit_part"] == 0.5


def test_parts_are_shown_with_what_they_come_to() -> None:
    quotas = (QuotaRecord("*", reservation_part=0.25), QuotaRecord("V100", 8, 1.0, 16, 8, 3, 0.25, 0.5))
    shown = pool_table([PoolRecord("research", "cluster", quotas)])
    assert shown.count("research") == 1
    assert "8 (25%)" in shown
    assert "16 (50%)" in shown


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--limit=4", "needs a type, such as V100:4, or a part of all, such as 25%"),
        ("--limit=120%", "must be at most 100%"),
        ("--reservation=V100:many", "'many' is not a whole number"),
    ],
)
def test_amounts_that_are_none_are_refused(option: str, problem: str, lab: Lab) -> None:
    nodes = [a_node(device_type="V100"), a_node("n1", device_type="cpu")]
    lab.service.node_records = {node.name: node for node in nodes}
    result = muster("pool", "set", "research", option, code=1)
    assert problem in str(result.exception)
    assert not lab.paths("PUT")


def test_removing_asks_first(lab: Lab, answering: None) -> None:
    muster("pool", "remove", "research", code=1, input="n\n")
    muster("token", "revoke", "ada", code=1, input="n\n")
    assert not lab.requests
    lab.put()
    assert muster("pool", "remove", "research", "-y").stdout == "pool research removed\n"
    assert muster("token", "revoke", "ada", "-y").stdout == "token ada revoked\n"


def test_nodes_are_listed_with_what_is_free(lab: Lab) -> None:
    assert words(muster("node", "list").stdout) == [
        "NODE STATE TYPE DEVICES FREE MAP JOBS",
        "n0 up cpu 8 5 xxx..... resnet50",
    ]
    assert "CORES" in muster("node", "list", "-o", "wide").stdout


def test_nodes_are_drained_and_used_again(lab: Lab) -> None:
    assert "draining" in muster("node", "drain", "n0").stdout
    assert " up " in muster("node", "resume", "n0").stdout
    assert "muster node list" in muster("node", "drain", "n7", code=102).stderr


def test_a_drain_takes_a_deadline_and_says_what_becomes_of_each_job(
    lab: Lab,
) -> None:
    now = time.time()
    leaving = (
        LeavingRecord(3, "ends", "ends", now + 12 * 60 + 0.5),
        LeavingRecord(4, "elastic", "moves"),
        LeavingRecord(5, "saves", "restarts", now + 1740.5),
        LeavingRecord(7, "plain", "starts over", now + 1770.5, 7200.0),
        LeavingRecord(8, "unknown", "ends"),
        LeavingRecord(9, "stuck", "stays"),
        LeavingRecord(10, "elm", "queues", now + 1740.5),
    )
    lab.service.node_records["n0"] = a_node(leaving=leaving)
    lines = words(muster("node", "drain", "n0", "--by", "30m").stdout)
    assert lab.requests[-1] == ("POST", "/v1/nodes/n0/drain", {"within": 1800.0})
    assert lines[0] == "NODE STATE EMPTY TYPE DEVICES FREE MAP JOBS"
    assert lines[1].startswith("n0 draining in ")
    assert [re.sub("[0-9]+m[0-9]+s", "Xm", line) for line in lines[2:]] == [
        "job 3 (ends) stays until it ends, about in Xm",
        "job 4 (elastic) moves to other nodes live",
        "job 5 (saves) is checkpointed and moved in Xm, unless it ends before",
        "job 7 (plain) has no checkpoint: unless it ends before, it stops in Xm "
        "and loses 2h00m of work",
        "job 8 (unknown) stays until it ends",
        "job 9 (stuck) has nowhere to move: it stays until other nodes have room or it ends",
        "job 10 (elm) has nowhere to move: it is checkpointed and goes back to the queue in Xm, "
        "unless other nodes have room or it ends before",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800.0), ("14:30", 1800.0), ("13:00", 82_800.0), ("2026-05-01T15:00", 3600.0)],
)
def test_a_deadline_is_a_duration_or_a_time(text: str, seconds: float) -> None:
    now = datetime(2026, 5, 1, 14, 0).astimezone()
    assert seconds_until("--by", text, now) == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("25:00", "'25:00' is not a time, such as 14:30"),
        ("2026-04-01T15:00", "is in the past"),
        ("yesterday", "--by: 'yesterday' is not a time; write for example 30m, 14:30 or 2026-"),
        ("30", "--by: .*30"),
    ],
)
def test_a_deadline_that_is_none_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        seconds_until("--by", text, datetime(2026, 5, 1, 14, 0).astimezone())


def test_policies_are_shown_and_chosen(lab: Lab) -> None:
    assert muster("policy", "show").stdout == "muster: the policy muster\nothers: fifo\n"
    assert muster("policy", "set", "fifo").stdout.startswith("fifo: ")
    assert "no policy named 'lifo'" in muster("policy", "set", "lifo", code=2).stderr


def test_a_secret_is_all_that_a_script_gets(lab: Lab) -> None:
    assert muster("token", "create", "laptop", "-u", "ada").stdout == "secret-of-laptop\n"
    assert lab.requests[-1][2] == {"name": "laptop", "user": "ada", "role": "user"}
    muster("token", "create", "boss", "--admin")
    assert lab.requests[-1][2] == {"name": "boss", "role": "admin"}
    assert "boss    boss  admin" in muster("token", "list").stdout


def test_a_name_that_is_none_is_one_line(lab: Lab) -> None:
    said = "is not a name: up to 63 letters, digits and . _ -, a letter or digit first"
    assert muster("token", "create", "x y", code=2).stderr == f"muster: name: 'x y' {said}\n"


def test_tokens_are_listed_without_secrets(lab: Lab) -> None:
    assert words(muster("token", "list").stdout) == [
        "NAME USER ROLE AGE LAST USED",
        "root root admin 1h00m never",
        "ada ada user 1h00m never",
        "bob bob user 1h00m never",
    ]


def test_a_join_token_is_printed_as_the_command_to_type(lab: Lab) -> None:
    made = muster("token", "create", "--agent", "--node", "gpu1", "--expires", "30m")
    assert made.stdout == "muster agent --join mja1.abc\n"
    assert lab.requests[-1][2] == {"node": "gpu1", "uses": 1, "seconds": 1800.0}
    listed = words(muster("token", "list", "--agent").stdout)
    assert listed[0] == "AGENT TOKEN NODE ENGINE USED EXPIRES LAST USED BY"
    assert listed[1].startswith("0badcafe gpu1 machines 0 of 1 in ")
    assert "0badcafe" in muster("token", "list").stdout
    assert json.loads(muster("token", "list", "--agent", "-o", "json").stdout)[0]["node"] == "gpu1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("create",), "give a NAME for a user's token, or --agent for a node's"),
        (("create", "x", "--agent"), "takes neither a name nor a user"),
        (("create", "x", "--node", "gpu1"), "--node: requires --agent"),
        (("create", "--agent", "--expires", "soon"), "--expires: 'soon' is not a time"),
        (("rotate",), "give one of NAME, --jobs and --authority"),
        (("rotate", "x", "--jobs"), "give one of NAME, --jobs and --authority"),
        (("rotate", "--jobs", "--at-once"), "--at-once: requires --authority"),
    ],
)
def test_what_does_not_fit_together_is_one_line(lab: Lab, given: tuple[str, ...], said: str) -> None:
    told = str(muster("token", *given, code=1).exception)
    assert said in told and "\n" not in told
    assert not lab.requests


def test_secrets_are_replaced(lab: Lab, answering: None) -> None:
    assert muster("token", "rotate", "ada").stdout == "new-secret-of-ada\n"
    said = muster("token", "rotate", "--authority").stdout
    assert said == "the authority of the agents replaced; still with the old one: gpu1\n"
    assert "the secret of jobs replaced" in muster("token", "rotate", "--jobs").stdout
    muster("token", "rotate", "--authority", "--at-once", code=1, input="n\n")


def test_the_owners_new_token_is_left_where_the_command_line_finds_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_URL", raising=False)
    monkeypatch.delenv("MUSTER_API_TOKEN", raising=False)
    write_settings(ClientSettings("http://127.0.0.1:1", "old"))
    muster("token", "create", "owner", "--admin")
    assert "new-secret" not in muster("token", "rotate", "owner").stdout
    kept = kept_settings()
    assert kept is not None and kept.token == "new-secret-of-owner"


def test_a_node_is_revoked_after_a_question(lab: Lab, answering: None) -> None:
    muster("node", "revoke", "n0", code=1, input="n\n")
    assert not lab.requests
    assert muster("node", "revoke", "n0", "-y").stdout == "node n0 revoked\n"
    assert "no agent has joined as 'n9'" in muster("node", "revoke", "n9", "-y", code=102).stderr


def test_a_lost_node_is_removed(lab: Lab) -> None:
    assert muster("node", "remove", "n0").stdout == "node n0 removed\n"
    assert "no node named 'n0'" in muster("node", "remove", "n0", code=102).stderr


def test_pools_without_limits_are_told_so() -> None:
    from muster.cli.render.pool_table import pool_table

    assert "holds pools" in pool_table([PoolRecord("a", "cluster", leaf=False)], wide=True)


def test_a_snapshot_is_written_to_a_file_or_to_standard_output(lab: Lab, tmp_path: Path) -> None:
    muster("snapshot", tmp_path / "now.json")
    assert (tmp_path / "now.json").read_bytes() == muster("snapshot", "-").stdout_bytes.strip()
    assert lab.paths("GET") == ["/v1/snapshot"] * 2
    assert "nowhere" in str(muster("snapshot", tmp_path / "nowhere/now.json", code=1).exception)


def test_who_may_use_a_pool_is_set_and_shown(lab: Lab) -> None:
    text = muster(
        "pool", "set", "research", "--allow", "ada", "--allow", "@vision", "--devices-per-user", "4"
    ).stdout
    assert lab.requests[-1][2] == {"quotas": {}, "allow": ["ada", "@vision"], "devices_per_user": 4}
    assert "may submit: ada, @vision; administrators always may" in text
    muster("pool", "set", "research", "--allow", "everybody", "--max-priority", "none")
    assert lab.requests[-1][2] == {"quotas": {}, "allow": [], "lifted": ["max_priority"]}


def test_a_pools_own_policy_is_set_and_lifted(lab: Lab) -> None:
    muster("pool", "set", "research", "--policy", "fifo")
    assert lab.requests[-1][2] == {"quotas": {}, "policy": "fifo"}
    muster("pool", "set", "research", "--policy", "none")
    assert lab.requests[-1][2] == {"quotas": {}, "lifted": ["policy"]}


def test_a_dry_run_of_a_pool_is_headed_by_what_was_typed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    headings: list[str] = []
    monkeypatch.setattr("muster.cli.whatif.answer.dry_run", lambda *given: headings.append(given[-1]))
    muster(
        "pool", "set", "research", "--limit", "none", "--allow", "ada", "--policy", "fifo", "--dry-run"
    )
    muster("pool", "set", "research", "--dry-run")
    assert headings == [
        "research.limit=none, research.allow=ada, research.policy=fifo",
        "pool research unchanged",
    ]


def test_a_pools_aim_is_set_with_its_policy_and_lifted(lab: Lab) -> None:
    muster("pool", "set", "research", "--policy", "muster:thrift=0.5", "--aim", "makespan")
    given = {"quotas": {}, "policy": "muster:thrift=0.5", "aim": "makespan"}
    assert lab.requests[-1][2] == given
    muster("pool", "set", "research", "--aim", "none")
    assert lab.requests[-1][2] == {"quotas": {}, "lifted": ["aim"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--devices-per-user", "0"], "--devices-per-user: must be at least 1, not 0"),
        (["--max-priority", "high"], "--max-priority: 'high' is not a whole number"),
        (["--policy", "fiffo"], "--policy: 'fiffo' is not a policy (did you mean 'fifo'?)"),
        (["--aim", "makespam"], "--aim: 'makespam' is not a policy's aim (did you mean 'makespan'?)"),
        (["--allow", "everybody", "--allow", "ada"], "--allow: everybody allows all"),
    ],
)
def test_rules_that_make_no_sense_are_one_line(lab: Lab, options: list[str], problem: str) -> None:
    refused = muster("pool", "set", "research", *options, code=1).exception
    assert isinstance(refused, InputError)
    assert problem in str(refused)


def test_limits_of_users_are_set_listed_and_reset(lab: Lab) -> None:
    muster("limit", "set", "ada", "--jobs", "50", "--size", "10MB")
    assert lab.requests[-1] == ("PUT", "/v1/limits/ada", {"jobs": 50, "size": 10_000_000})
    muster("limit", "set", "--submissions", "30")
    assert lab.requests[-1] == ("PUT", "/v1/limits/*", {"submissions": 30})
    muster("limit", "reset", "ada")
    assert lab.requests[-1][:2] == ("DELETE", "/v1/limits/ada")
    assert "USER" in muster("limit", "list").stdout
    muster("limit", "set", "ada", "--device-hours", "500")
    assert lab.requests[-1] == ("PUT", "/v1/limits/ada", {"device_hours": 500.0})
    assert "give --jobs, --size, --submissions or" in muster("limit", "set", code=2).stderr


def test_the_audit_log_is_read(lab: Lab) -> None:
    assert words(muster("audit", "--since", "1d", "-u", "ada").stdout)[0] == (
        "AT USER FROM ACT ON OUTCOME DETAIL"
    )
    assert json.loads(muster("audit", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["-u", "zoe"], "nothing by user 'zoe' is in the audit log; users in it: ada, root"),
        (["-u", "adda"], "nothing by user 'adda' is in the audit log (did you mean 'ada'?)"),
        (["-u", "ada", "--since", "1h"], "nothing in the audit log matches; try an earlier --since"),
        (["--since", "1h"], "nothing in the audit log matches; try an earlier --since"),
    ],
)
def test_who_finds_nothing_in_the_audit_log_is_told_why(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, typed: list[str], told: str
) -> None:
    log = [ActRecord(1000.0, "root", "drain", "n0"), ActRecord(2000.0, "ada", "submit", "12")]

    async def acts(_: object, user: str | None, since: float, limit: int) -> list[ActRecord]:
        return [each for each in log if user in (None, each.user) and each.at >= since][-limit:]

    monkeypatch.setattr(lab.service, "acts", acts, raising=False)
    answer = muster("audit", *typed)
    assert answer.stderr == f"muster: {told}\n"
    assert muster("audit", "-u", "ada").stderr == ""
