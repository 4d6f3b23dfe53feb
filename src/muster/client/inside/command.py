"""A command beside a task, or the task's own terminal: on this terminal, or with pipes."""

import contextlib
import os
import shutil
import signal
import tempfile
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from muster.client.inside.visit import VisitConnection, VisitEnd, VisitOutcome
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump
from muster.wire.visits.visits import ERRORS, INPUT, OUTPUT

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that are for a command without a terminal; on one, keys are."""
DETACH = b"\x10\x11"
"""Ctrl-P Ctrl-Q, as of Docker."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What a command beside a task printed, and how it ended."""

    code: int
    output: bytes
    errors: bytes


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """Descriptors of this process that a command is connected to."""

    input: int = 0
    output: int = 1
    errors: int = 2


class DetachKeys:
    """Looks for keys among those typed; `pressed` is called when all of them came."""

    def __init__(self, keys: bytes, pressed: Callable[[], None]) -> None:
        self._keys, self._pressed = keys, pressed
        self._held = b""

    def __call__(self, data: bytes) -> bytes:
        """Return what to send of the keys typed: not those that may be the beginning of ours."""
        typed, self._held = self._held + data, b""
        before, found, _ = typed.partition(self._keys)
        if found:
            self._pressed()
            return before
        for length in range(min(len(self._keys) - 1, len(typed)), 0, -1):
            if typed.endswith(self._keys[:length]):
                self._held = typed[-length:]
                return typed[:-length]
        return typed


def run_visit(
    visit: VisitConnection, streams: StandardStreams, *, terminal: bool, detach: bytes = b""
) -> VisitEnd:
    """Connect a visit to these streams until it ends. `terminal`: they are this process's terminal;
    `detach`: keys that end the visit and leave what it shows running."""
    outcome, left = VisitOutcome(), []

    def hear(note: StreamNote) -> None:
        if outcome.hear(note):
            pump.leave(streams.input)
            pump.stop()

    def leave() -> None:
        left.append(True)
        pump.stop()

    pump = Pump(visit.socket, hear, writes_rest=True)
    pump.drain(OUTPUT, streams.output)
    pump.drain(ERRORS, streams.errors)
    pump.feed(INPUT, streams.input, tap=DetachKeys(detach, leave) if detach else None)
    pump.frames.note(what="begin", **(_screen(streams.output) if terminal else {}))
    with _raw(streams.input if terminal else None), _signals(pump, streams, terminal=terminal):
        pump.run()
    return VisitEnd(detached="detached") if left else outcome.result()


def executed(visit: VisitConnection, given: bytes) -> Executed:
    """Run a command with this input, and return what it printed."""
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        source.write(given)
        source.seek(0)
        streams = StandardStreams(source.fileno(), output.fileno(), errors.fileno())
        end = run_visit(visit, streams, terminal=False)
        for file in (output, errors):
            file.seek(0)
        return Executed(end.code or 0, output.read(), errors.read())


def keys_of(text: str) -> bytes:
    """Read keys as `ctrl-p,ctrl-q` or `ctrl-a,d`; ValueError if they are none."""
    found = bytearray()
    for part in text.split(","):
        name = part.strip()
        control = name.lower().startswith("ctrl-") and len(name) == 6
        key = name[-1:]
        if control and "@" <= key.upper() <= "_":
            found.append(ord(key.upper()) - 64)
        elif len(name) == 1 and name.isascii():
            found += name.encode()
        else:
            raise ValueError(f"{part!r} is not a key; write for example ctrl-p,ctrl-q")
    return bytes(found)


def _screen(terminal: int) -> dict[str, str | int]:
    try:
        size = os.get_terminal_size(terminal)
    except OSError:
        size = shutil.get_terminal_size()
    return {"term": os.environ.get("TERM") or "xterm", "rows": size.lines, "columns": size.columns}


@contextlib.contextmanager
def _raw(terminal: int | None) -> Iterator[None]:
    """Let a terminal pass every key on, until the end."""
    if terminal is None or not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)  # what was typed ahead is kept
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _signals(pump: Pump, streams: StandardStreams, *, terminal: bool) -> Iterator[None]:
    """Pass signals of this process on, and the size of its terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)

    def pass_on() -> None:
        for number in os.read(read, 256):
            if number == signal.SIGWINCH:
                size = _screen(streams.output)
                pump.frames.note(what="size", rows=size["rows"], columns=size["columns"])
            elif number in PASSED_ON:
                pump.frames.note(what="signal", number=number)

    numbers: Sequence[signal.Signals] = (signal.SIGWINCH,) if terminal else PASSED_ON
    pump.watch(read, pass_on)
    earlier = {number: signal.signal(number, lambda *_: None) for number in numbers}
    wakes = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakes)
        for number, handler in earlier.items():
            signal.signal(number, handler)
        pump.leave(read)
        os.close(read)
        os.close(write)
