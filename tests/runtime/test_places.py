"""Checkpoints at a path, on another file system, and in a real S3 bucket: the same promises."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from muster.runtime.errors import BadCheckpointError
from muster.runtime.state import places
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.fence import FencedError, WriterFence, WriterTerm, WriterTerms
from muster.runtime.state.owner import CheckpointOwner, WriterClaim
from muster.runtime.state.places import Place, RemoteFolder, place_of
from tests import s3_server

SIGNED = "a model"
ADA = CheckpointOwner("train", "ada")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not s3_server.installed():
        pytest.skip(s3_server.MISSING)
    with (
        s3_server.s3_server(tmp_path_factory.mktemp("s3")) as variables,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, text in variables.items():
            patch.setenv(name, text)
        fsspec.filesystem("s3").mkdir("training")
        yield "s3://training"


KINDS = ("path", "file", "renaming", pytest.param("s3", marks=pytest.mark.slow))


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = request.param
    if kind == "s3":
        return f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    prefix = {"path": "", "file": "file://", "renaming": "local://"}[kind]
    return f"{prefix}{tmp_path}/deep/folder"


def state(step: int) -> dict[str, Any]:
    return {"weights": torch.full((1000,), float(step)), "step": step}


def writer(where: str, told: list[str], attempt: int = 1, keep: int = 3) -> Checkpoints:
    claim = WriterClaim(ADA, "run", attempt=attempt)
    return Checkpoints(where, keep, on_error=told.append, claim=claim)


def test_the_newest_checkpoint_is_loaded_and_old_ones_are_removed(where: str) -> None:
    told: list[str] = []
    one = writer(where, told, keep=2)
    one.take()
    assert one.latest(SIGNED) is None
    for step in (1, 2, 3):
        assert one.save(step, state(step), SIGNED, wait=True)
    one.release()
    other = writer(where, told)
    other.take()
    found = other.latest(SIGNED)
    other.release()
    assert found is not None and found[0] == 3
    assert torch.equal(found[1]["weights"], state(3)["weights"])
    assert len([name for name in place_of(where).names() if name.startswith("step-")]) == 2
    assert not told


def test_a_run_that_was_given_up_writes_nothing_that_counts(where: str) -> None:
    told: list[str] = []
    old, new = writer(where, told, attempt=1), writer(where, told, attempt=2)
    old.take()
    old.save(10, state(10), SIGNED, wait=True)
    old.release()  # its lock: on another machine it would be no hindrance
    new.take()
    old.save(99, state(99), SIGNED, wait=True)
    old.release()
    assert "this one was given up" in told[-1]
    found = new.latest(SIGNED)
    new.release()
    assert found is not None and found[0] == 10


def test_a_run_that_shrinks_to_one_machine_still_writes(tmp_path: Path) -> None:
    def fence(current: WriterTerm, real: WriterTerm) -> WriterFence:
        terms = WriterTerms(lambda: current, spanning=lambda: real)
        return WriterFence(place_of(str(tmp_path)), WriterClaim(ADA, "run", attempt=1), terms)

    both, alone = WriterTerm(1, "a b"), WriterTerm(2, "b")
    first = fence(both, both)
    first.take(begins=True)
    survivor = fence(WriterTerm(), alone)  # on one machine terms do not count by themselves
    survivor.take()
    survivor.take()
    survivor.check()
    assert survivor.top.term == alone
    with pytest.raises(FencedError, match="this one was given up"):
        first.take()


def test_of_writers_that_claim_at_once_each_gets_a_number(where: str) -> None:
    place = place_of(where)
    won = []
    begin = threading.Barrier(4)

    def claim(number: int) -> None:
        begin.wait()
        if place.create("claim", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if isinstance(place, RemoteFolder) and not where.startswith("s3"):
        assert won  # fsspec's own file system looks, then writes
    else:
        assert [place.read("claim")] == [str(number).encode() for number in won]


def test_a_store_that_fails_for_a_while_is_tried_again(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Place = place_of(where)
    if not isinstance(place, RemoteFolder):
        pytest.skip("a folder has no upload")
    monkeypatch.setattr(places, "PAUSES", (0.0, 0.0))
    failures, put = [OSError("503 Slow Down"), OSError("connection reset")], place._put

    def flaky(local: str, name: str) -> None:
        if failures:
            raise failures.pop()
        put(local, name)

    monkeypatch.setattr(place, "_put", flaky)

    def fill(descriptor: int) -> None:
        os.write(descriptor, b"content")

    place.write("step", fill)
    assert place.read("step") == b"content"


def test_a_job_is_resumed_from_what_is_below_its_place(where: str, tmp_path: Path) -> None:
    """As `--resume-from JOB` does: its script has named a folder there."""
    writer(f"{where}/below", []).save(7, state(7), SIGNED, wait=True)
    claim = WriterClaim(ADA, "2", where if "://" in where else Path(where))
    other = Checkpoints(tmp_path / "own", claim=claim)
    found = other.latest(SIGNED)
    assert found is not None
    assert found[0] == 7
    writer(f"{where}/beside", []).save(8, state(8), SIGNED, wait=True)
    with pytest.raises(BadCheckpointError, match="has several trainings"):
        other.latest(SIGNED)


def test_a_failed_upload_does_not_stop_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PAUSES", ())
    told: list[str] = []
    one = Checkpoints("memory://bucket/run", on_error=told.append)

    def broken(local: str, name: str) -> None:
        raise OSError("the bucket is gone")

    monkeypatch.setattr(one.place, "_put", broken)
    assert one.save(1, state(1), SIGNED, wait=True)
    assert told == [
        "checkpoint of step 1 could not be written to memory://bucket/run: the bucket is gone"
    ]


def test_a_scheme_that_nothing_knows_is_refused_in_one_line() -> None:
    with pytest.raises(BadCheckpointError, match="cannot be kept at nonsense://x: Protocol"):
        place_of("nonsense://x")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadCheckpointError, match=r"pip install 'musterd\[remote\]'"):
        place_of("gs://bucket/run")
