"""What was learnt, stored and read back; what makes no sense is passed over."""

from dataclasses import replace

import pytest

from muster.daemon.learn.notes import (
    CARRIED,
    SHOWN,
    EndNote,
    Kin,
    StepNote,
    carried_of,
    note_of,
    note_of_transfer,
    shown_of,
)
from muster.perf.history.links import Carried
from muster.perf.wires import LinkClass, Wire
from muster.store.batch import Note

KIN = Kin("train.py 1234", "train.py", "1234", 64)
STEP = StepNote(KIN, "A100", (2, 1), 0.5, 0.1, 40.0, 64)
CARRY = Carried(LinkClass(Wire.NIC, "dgx"), 1e6, 0.25, 7.0)


@pytest.mark.parametrize("shown", [STEP, EndNote(KIN, 100.0)])
def test_steps_and_ends_come_back_as_they_were(shown: StepNote | EndNote) -> None:
    note = note_of(shown, 3.0)
    assert (note.kind, note.key, note.at) == (SHOWN, KIN.application, 3.0)
    assert shown_of(note) == shown
    assert carried_of(note) is None


def test_transfers_come_back_as_they_were() -> None:
    note = note_of_transfer(CARRY)
    assert (note.kind, note.at) == (CARRIED, 7.0)
    assert carried_of(note) == CARRY
    assert shown_of(note) is None


@pytest.mark.parametrize(
    "shown",
    [
        StepNote(KIN, "A100", (2,), 0.0, 0.0, 1.0),
        StepNote(KIN, "A100", (2,), 0.5, 0.6, 1.0),
        StepNote(KIN, "A100", (2,), 0.5, -0.1, 1.0),
        StepNote(KIN, "A100", (), 0.5, 0.1, 1.0),
        StepNote(KIN, "A100", (2, 0), 0.5, 0.1, 1.0),
        EndNote(KIN, 0.0),
    ],
)
def test_what_cannot_be_is_passed_over(shown: StepNote | EndNote) -> None:
    assert shown_of(note_of(shown, 3.0)) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"wire": "string", "configuration": "x"}'])
def test_what_cannot_be_read_is_passed_over(body: bytes) -> None:
    assert shown_of(Note(SHOWN, "x", 0.0, body)) is None
    assert carried_of(Note(CARRIED, "x", 0.0, body)) is None


def test_a_link_of_no_known_kind_is_passed_over() -> None:
    note = note_of_transfer(CARRY)
    other = replace(note, body=note.body.replace(Wire.NIC.value.encode(), b"pigeon"))
    assert carried_of(other) is None
