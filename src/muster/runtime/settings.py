"""A task's settings, read once from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan

from muster.ending import Ending, parse_ending
from muster.runtime.errors import MusterError
from muster.wire.tasks.messages import ROLES

TLS = "tls://"
"""Before the address of a coordinator that listens with TLS."""


class BadSettingError(MusterError):
    """An invalid environment variable, and what it should be."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Who this task is and where it runs."""

    job: str = "job"
    task: str = "worker-0"
    role: str = "worker"
    coordinator: tuple[str, int] | None = None
    """Host and port; None: the task trains alone."""
    token: str = ""
    """Proves to the coordinator and to peers that the task belongs to the job."""
    host: str = "127.0.0.1"
    """Where peers reach this task."""
    threads: int = 0
    """Threads of torch; 0: torch's default."""
    device: str = ""
    """"cpu", "cuda", "cuda:1"; empty: chosen by the runtime."""
    sample_seconds: float = 0.0
    """Emulates a device of fixed speed: least seconds per sample on a CPU."""
    checkpoint: str = ""
    """Folder of the job's checkpoints, above those that the script names; empty: none."""
    resume_from: str = ""
    """Checkpoints of another training to start from; empty: none."""
    user: str = ""
    """Whose job it is; empty: that of whoever runs the process."""
    attempt: int = 0
    """Counts the runs of the job: a task of an earlier one writes no checkpoint any more."""
    encrypted: bool = False
    """Whether the coordinator listens with TLS."""
    batch: str = ""
    """Limits of the global batch, "128..2048", instead of the script's own; empty: none."""
    until: Ending | None = None
    """When it ends, where the script does not say; None: it must."""


def from_environment(environ: Mapping[str, str]) -> TaskSettings:
    """Read the `MUSTER_*` variables."""
    role = environ.get("MUSTER_ROLE") or "worker"
    if role not in ROLES:
        raise BadSettingError(f"MUSTER_ROLE is {role!r}; it must be one of {', '.join(ROLES)}")
    given = environ.get("MUSTER_COORDINATOR", "")
    coordinator = _coordinator(given.removeprefix(TLS))
    if coordinator is not None and not environ.get("MUSTER_TOKEN"):
        raise BadSettingError("MUSTER_COORDINATOR needs MUSTER_TOKEN, the job's token")
    return TaskSettings(
        job=environ.get("MUSTER_JOB") or "job",
        task=environ.get("MUSTER_TASK") or f"{role}-0",
        role=role,
        coordinator=coordinator,
        token=environ.get("MUSTER_TOKEN", ""),
        host=environ.get("MUSTER_HOST") or "127.0.0.1",
        threads=_count("MUSTER_THREADS", environ.get("MUSTER_THREADS") or "0"),
        device=_device(environ.get("MUSTER_DEVICE", "")),
        sample_seconds=_seconds(environ.get("MUSTER_SAMPLE_SECONDS") or "0"),
        checkpoint=environ.get("MUSTER_CHECKPOINT", ""),
        resume_from=environ.get("MUSTER_RESUME_FROM", ""),
        user=environ.get("MUSTER_USER", ""),
        attempt=_count("MUSTER_ATTEMPT", environ.get("MUSTER_ATTEMPT") or "0"),
        encrypted=given.startswith(TLS),
        batch=_batch(environ.get("MUSTER_BATCH", "")),
        until=_ending(environ.get("MUSTER_UNTIL", "")),
    )


def _coordinator(text: str) -> tuple[str, int] | None:
    """Split "host:port" ("[::1]:80" for IPv6)."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or not _digits(port) or not 0 < int(port) < 65536:
        raise BadSettingError(f"MUSTER_COORDINATOR: {text!r} is not host:port")
    if ":" in bare and bare == host:
        raise BadSettingError(
            f"MUSTER_COORDINATOR: {text!r} is not host:port; an IPv6 host goes in brackets, [::1]:80"
        )
    return bare, int(port)


def _ending(text: str) -> Ending | None:
    try:
        return parse_ending(text) if text else None
    except ValueError as problem:
        raise BadSettingError(f"MUSTER_UNTIL: {problem}") from None


def _count(name: str, text: str) -> int:
    if not _digits(text):
        raise BadSettingError(f"{name} is {text!r}; it must be a whole number, 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not 0 <= seconds < inf:
        raise BadSettingError(f"MUSTER_SAMPLE_SECONDS is {text!r}; it must be a number, 0 or more")
    return seconds


def _batch(text: str) -> str:
    own, dots, largest = text.partition("..")
    whole = _digits(own) and (not dots or _digits(largest))
    if not text or (whole and 0 < int(own) <= int(largest or own)):
        return text
    raise BadSettingError(f"MUSTER_BATCH is {text!r}; it must be a range of samples, 128..2048")


def _device(text: str) -> str:
    kind, colon, index = text.partition(":")
    if text in ("", "cpu", "cuda") or (kind == "cuda" and colon and _digits(index)):
        return text
    raise BadSettingError(f'MUSTER_DEVICE is {text!r}; it must be "cpu", "cuda", "cuda:N" or empty')


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
