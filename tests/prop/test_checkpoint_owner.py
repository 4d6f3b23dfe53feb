"""Whatever trainings share a folder, in any order: nobody gets another's state unasked."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from muster.runtime.errors import BadCheckpointError
from muster.runtime.state import owner as owner_module
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.owner import CheckpointOwner, WriterClaim

SIGNED = '{"tensors": {}, "optimizer": "SGD", "groups": [1]}'
OWNERS = [CheckpointOwner("train", "ada", "/t.py", (rate,)) for rate in ("0.1", "0.5")]

acts = st.lists(
    st.tuples(
        st.sampled_from(["begin", "save", "end", "die"]),
        st.integers(0, 1),  # whose
        st.integers(0, 1),  # which of its runs
        st.integers(0, 1),  # which folder
    ),
    max_size=25,
)


class Run:
    """One run of a training in one folder: from `begin` to `end`."""

    def __init__(self, folder: Path, owner: int, run: int) -> None:
        self.owner, self.step = owner, 0
        claim = WriterClaim(OWNERS[owner], f"{owner}-{run}")
        self.checkpoints = Checkpoints(folder, on_error=lambda _: None, claim=claim)

    def begin(self) -> None:
        self.checkpoints.take()
        try:
            found = self.checkpoints.latest(SIGNED)
        except BadCheckpointError:
            self.checkpoints.release()
            raise
        if found is not None:
            self.step, state = found
            assert state["owner"].item() == self.owner, "it has taken up another's weights"

    def save(self) -> bool:
        self.step += 1
        state = {"owner": torch.tensor(self.owner)}
        return self.checkpoints.save(self.step, state, SIGNED, wait=True)


@settings(max_examples=60, deadline=None)
@given(acts)
def test_one_writer_at_a_time_and_only_its_own_weights(
    history: list[tuple[str, int, int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as quick, tempfile.TemporaryDirectory() as made:
        quick.setattr(owner_module, "_SIGNING", 0.0)
        alive: dict[tuple[int, int, int], Run] = {}
        for act, owner, number, place in history:
            folder, key = Path(made) / str(place), (owner, number, place)
            others = [each for each in alive if each[2] == place and each != key]
            if act == "begin" and key not in alive:
                run = Run(folder, owner, number)
                try:
                    run.begin()
                except BadCheckpointError:
                    continue
                assert not others, "two live runs write to one folder"
                alive[key] = run
            elif act == "save" and key in alive:
                assert alive[key].save()
            elif act in ("end", "die") and key in alive:
                # The kernel releases the lock of a process that dies; what it wrote of itself stays.
                card = (folder / ".writer").read_bytes()
                alive.pop(key).checkpoints.release()
                if act == "die":
                    (folder / ".writer").write_bytes(card)
        for run in alive.values():
            run.checkpoints.release()
