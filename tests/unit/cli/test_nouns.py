"""`muster pool`, `node`, `policy` and `token`."""

import json

import pytest

from muster.wire.records import PoolRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.stub import StubClient, a_node


def words(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_pools_are_listed_by_device_type(lab: StubClient) -> None:
    assert words(muster("pool", "list").stdout) == [
        "POOL PARENT TYPE RESERVED SHARE LIMIT ENTITLED USED RUNNING WAITING",
        "research cluster cpu 4 2 6 5 3 1 1",
        "default cluster - 0 1 - 0 0 0 0",
    ]
    assert [pool["name"] for pool in json.loads(muster("pool", "list", "-o", "json").stdout)] == [
        "research",
        "default",
    ]


def test_a_pool_is_shown_with_its_live_jobs(lab: StubClient) -> None:
    lines = words(muster("pool", "show", "research").stdout)
    assert lines[1].endswith("takes jobs their user")
    assert [line.split()[0] for line in lines[3:]] == ["ID", "13", "12"]
    assert "no live jobs" in muster("pool", "show", "default").stdout
    assert "there are: research, default" in muster("pool", "show", "reserch", code=102).stderr


def test_what_is_not_given_of_a_quota_stays(lab: StubClient) -> None:
    muster("pool", "set", "research", "--limit", "none", "--share", "cpu:3", "--shared")
    quotas = {"cpu": {"reservation": 4, "share": 3.0, "limit": None}}
    assert lab.asked[-1] == ("set_pool", ("research", None, quotas, True))


def test_a_new_pool_begins_with_the_defaults(lab: StubClient) -> None:
    muster("pool", "set", "vision", "--parent", "research", "--reservation", "2")
    quotas = {"cpu": {"reservation": 2, "share": 1.0, "limit": None}}
    assert lab.asked[-1] == ("set_pool", ("vision", "research", quotas, None))


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--limit=V10:4", "'V10' is not a device type of this cluster (did you mean 'V100'?)"),
        ("--limit=4", "needs a type, such as V100:4"),
        ("--reservation=V100:many", "'many' is not a whole number"),
    ],
)
def test_amounts_that_are_none_are_refused(option: str, problem: str, lab: StubClient) -> None:
    lab.cluster = [a_node(device_type="V100"), a_node("n1", device_type="cpu")]
    result = muster("pool", "set", "research", option, code=1)
    assert problem in str(result.exception)
    assert "set_pool" not in [what for what, _ in lab.asked]


def test_removing_asks_first(lab: StubClient, answering: None) -> None:
    muster("pool", "remove", "research", code=1, input="n\n")
    muster("token", "revoke", "laptop", code=1, input="n\n")
    assert not lab.asked
    assert muster("pool", "remove", "research", "-y").stdout == "pool research is removed\n"
    assert muster("token", "revoke", "laptop", "-y").stdout == "token laptop is revoked\n"


def test_nodes_are_listed_with_what_is_free(lab: StubClient) -> None:
    assert words(muster("node", "list").stdout) == [
        "NODE STATE TYPE DEVICES FREE MAP JOBS",
        "n0 up cpu 8 5 xxx..... resnet50",
    ]
    assert "CORES" in muster("node", "list", "-o", "wide").stdout


def test_nodes_are_drained_and_used_again(lab: StubClient) -> None:
    assert "draining" in muster("node", "drain", "n0").stdout
    assert " up " in muster("node", "resume", "n0").stdout
    assert "muster node list" in muster("node", "drain", "n7", code=102).stderr


def test_policies_are_shown_and_chosen(lab: StubClient) -> None:
    assert muster("policy", "show").stdout == "muster: shares by marginal gain\nothers: fifo\n"
    assert muster("policy", "set", "fifo").stdout.startswith("fifo: ")
    assert "'lifo' is not a policy" in muster("policy", "set", "lifo", code=2).stderr


def test_a_secret_is_all_that_a_script_gets(lab: StubClient) -> None:
    assert muster("token", "create", "laptop", "-u", "ada").stdout == "a-secret\n"
    assert lab.asked[-1] == ("create_token", ("laptop", "ada", "user"))
    muster("token", "create", "root", "--admin")
    assert lab.asked[-1] == ("create_token", ("root", "root", "admin"))


def test_tokens_are_listed_without_secrets(lab: StubClient) -> None:
    assert words(muster("token", "list").stdout) == [
        "NAME USER ROLE AGE LAST USED",
        "laptop ada user 1h00m never",
    ]


def test_pools_without_limits_are_told_so() -> None:
    from muster.cli.render.pool_table import pool_table

    assert "holds pools" in pool_table([PoolRecord("a", "cluster", leaf=False)], wide=True)
