"""Whom the jobs of a daemon run as."""

import os
import pwd

import pytest

from muster.executors.accounts import Submitters, UnknownUserError, account_of, own_user

ROOT = Submitters("root", separate=True)
SOMEBODY = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid)
"""A user whom this machine has, and who is not root."""


def test_an_account_is_what_a_login_would_give() -> None:
    account = account_of("root")
    assert (account.uid, account.gid) == (0, 0)
    assert 0 in account.groups
    assert account.environ["USER"] == account.environ["LOGNAME"] == "root"
    assert account.environ["HOME"] == str(account.home)
    assert account_of(own_user()).uid == os.geteuid()


@pytest.mark.parametrize("name", ["no such user", "", "0", "a\0b"])
def test_a_user_that_does_not_exist_is_unknown(name: str) -> None:
    with pytest.raises(UnknownUserError, match="does not exist on this machine"):
        account_of(name)


def test_jobs_of_others_run_as_those_users_and_the_daemons_own_as_itself() -> None:
    assert ROOT.user_of(SOMEBODY) == SOMEBODY
    assert ROOT.user_of("root") == ""
    assert ROOT.problem(SOMEBODY, SOMEBODY) == ""
    assert ROOT.problem("root", "root") == ""
    assert ROOT.caveat == ""


def test_who_does_not_exist_cannot_submit_and_is_told_what_to_do() -> None:
    problem = ROOT.problem("nosuchuser", "nosuchuser")
    assert problem.startswith("user 'nosuchuser' does not exist on this machine")
    assert "muster token create" in problem
    assert "\n" not in problem


def test_nobody_but_root_runs_jobs_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even another administrator, nor a second name of root's."""
    assert ROOT.problem("root", SOMEBODY) == "only root can submit jobs that run as root"
    toor = pwd.struct_passwd(("toor", "x", 0, 0, "", "/root", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: toor)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [0])
    assert ROOT.problem("toor", "toor") == "user 'toor' is root by another name"


def test_where_all_run_as_one_that_is_told_and_nobody_is_refused() -> None:
    together = Submitters("ada", separate=False)
    assert together.user_of("bob") == ""
    assert together.problem("nosuchuser", "nosuchuser") == ""
    assert "all jobs run as ada" in together.caveat
