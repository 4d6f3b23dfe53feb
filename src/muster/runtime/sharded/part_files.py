"""Checkpoints of a model in parts: a file per worker, and one that names them all.

Every worker writes what it owns, at the same step; the primary writes the rest (position, schedules,
buffers, names of the files) once all parts are there, under the name of an ordinary checkpoint. So a
checkpoint counts only if it is whole, nobody ever holds all of it, and any number of workers can load
it: each reads what it shall keep.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.runtime.comm.stream import send_json
from muster.runtime.errors import BadCheckpointError, BrokenGroupError
from muster.runtime.members.crew import Crew, plan_name
from muster.runtime.members.peers import PeerServer, ask
from muster.runtime.shards.state_pieces import SHARED, Piece, by_parameter, cuts, joined
from muster.runtime.state.checkpoint import Checkpoints, HostCopies, read_file, write_file
from muster.runtime.state.fence import read_name
from muster.runtime.state.places import Place, place_of

_PART = re.compile(r"part-(\d{12})\..+\.pt")
LOOK = 0.05
"""Seconds between questions to a worker that still writes."""
ANSWERS = 5.0
"""Seconds in which a living worker answers."""
REMEMBERED = 8
"""KeptParts whose writing is over that others may still ask for."""

Packed = dict[str, Any]
Elements = tuple[int, int, int]
"""A parameter's number, and its elements [begin, end)."""


def part_name(step: int, crew: Crew, rank: int) -> str:
    """Name a worker's part of a checkpoint; no two formations share a name."""
    return f"part-{step:012d}.{plan_name(crew.plan)}.{rank}.pt"


class PartWriter:
    """Writes one worker's parts, in a thread, and on the primary the checkpoints that name them."""

    def __init__(self, peers: PeerServer, token: str, say: Callable[[str], None]) -> None:
        self._token, self._say = token, say
        self._copies = HostCopies()
        self._over: deque[str] = deque(maxlen=REMEMBERED)
        self._thread: threading.Thread | None = None
        self._lost: BrokenGroupError | None = None
        peers.on("part", lambda sock, asked: send_json(sock, {"over": asked["name"] in self._over}))

    def save(
        self,
        checkpoints: Checkpoints,
        crew: Crew,
        step: int,
        pieces: Sequence[Piece],
        rest: tuple[Packed, str] | None,
    ) -> bool:
        """Copy the pieces and write them in a thread; False if the previous ones are being written.

        `rest`: all that is not in parts, and the training's signature, on the primary; else None.
        """
        if self._thread is not None and self._thread.is_alive():
            return False
        packed = {f"{p.parameter}:{p.begin}:{p.end}": p.state for p in pieces}
        mine = self._copies.copied({"pieces": packed, "rest": rest[0] if rest else None})
        signature = rest[1] if rest else None
        task = (checkpoints, crew, step, mine, signature)
        self._lost = None
        self._thread = threading.Thread(target=self._write, args=task, name="muster-parts")
        self._thread.start()
        return True

    def close(self) -> None:
        """Wait for what is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def finish(self, crew: Crew, step: int, primary: int) -> None:
        """Wait until the primary is done with a checkpoint; `BrokenGroupError` if a writer is lost."""
        self.close()
        if self._lost is not None:
            raise self._lost
        if crew.rank != primary:
            self._await(crew, primary, part_name(step, crew, primary))

    def _write(
        self, checkpoints: Checkpoints, crew: Crew, step: int, mine: Packed, signature: str | None
    ) -> None:
        names = [part_name(step, crew, rank) for rank in range(crew.size)]
        try:
            write_file(checkpoints.place, names[crew.rank], {"pieces": mine["pieces"]}, {"step": step})
            if signature is not None:
                self._await_others(checkpoints.place, crew, names)
                rest = {**mine["rest"], "parts": names}
                checkpoints.save(step, rest, signature, wait=True)
                _prune(checkpoints.place, step)
            else:
                checkpoints.failed = ""
        except Exception as problem:  # training continues, and the last one is intact
            self._lost = problem if isinstance(problem, BrokenGroupError) else None
            words = f"checkpoint of step {step} is not written to {checkpoints.where}: {problem}"
            checkpoints.failed = words
            self._say(words)
        finally:
            self._over.append(names[crew.rank])

    def _await_others(self, place: Place, crew: Crew, names: Sequence[str]) -> None:
        for rank, name in enumerate(names):
            if rank != crew.rank:
                self._await(crew, rank, name)
        missing = sorted(set(names) - set(place.names()))
        if missing:
            tasks = ", ".join(crew.tasks[names.index(name)] for name in missing)
            raise BadCheckpointError(
                f"the parts of {tasks} are not there: give the training a folder or URL that all its "
                "nodes see"
            )

    def _await(self, crew: Crew, rank: int, name: str) -> None:
        """Wait until a worker's writing is over, however long it takes."""
        member = crew.plan.members[rank]
        while True:
            try:
                asked = {"kind": "part", "name": name}
                if ask(member.address, asked, self._token, ANSWERS)["over"]:
                    return
            except (OSError, ValueError) as problem:
                raise BrokenGroupError(f"{member.task} is lost, with its part") from problem
            time.sleep(LOOK)


def _prune(place: Place, step: int) -> None:
    """Remove the parts of checkpoints that are gone."""
    names = place.names()
    kept = {saved.step for name in names if (saved := read_name(name)) is not None}
    for name in names:
        found = _PART.fullmatch(name)
        if found and int(found[1]) not in kept and int(found[1]) <= step:
            place.remove(name)


def read_pieces(
    where: str, names: Iterable[str], wanted: Sequence[tuple[int, int, int]]
) -> list[Piece]:
    """Read pieces out of parts, one file at a time; `wanted`: (parameter, begin, end)."""
    place, found = place_of(where), []
    for name in names:
        try:
            packed = read_file(place, name)["pieces"]
        except FileNotFoundError as problem:
            raise BadCheckpointError(
                f"{place.address(name)} is not there: a checkpoint in parts needs a folder or URL that "
                "all nodes see"
            ) from problem
        known = by_parameter(_piece(key, state) for key, state in packed.items())
        for parameter, begin, end in wanted:
            found += cuts(known.get(parameter, ()), begin, end)
    return found


def assembled(where: str, whole: Packed) -> Packed:
    """Return a checkpoint in parts as that of a training that has everything."""
    layout = whole["layout"]
    shapes, sizes = layout["shapes"], layout["sizes"]
    wanted = [(index, 0, size) for index, size in enumerate(sizes)]
    known = by_parameter(read_pieces(where, whole["parts"], wanted))
    pieces = [joined(known[index], index, 0, size) for index, size in enumerate(sizes)]
    state = {
        place: {n: _shaped(n, v, shapes[index]) for n, v in pieces[index].state.items() if n != "value"}
        for place, index in enumerate(layout["held"])
    }
    model = {name: pieces[index].state["value"].view(shapes[index]) for name, index in layout["keys"]}
    found = {**whole, "model": {**whole["model"], **model}}
    found["optimizer"] = {**whole["optimizer"], "state": {p: s for p, s in state.items() if s}}
    return {key: value for key, value in found.items() if key not in ("parts", "layout")}


def _shaped(name: str, value: Any, shape: Sequence[int]) -> Any:
    return value if name == SHARED else value.view(shape)


def _piece(key: str, state: Packed) -> Piece:
    parameter, begin, end = map(int, key.split(":"))
    return Piece(parameter, begin, end, state)
