"""The output of a job's tasks, by line."""

from collections.abc import Iterator

import msgspec

from muster.client.connecting.connection import DaemonConnection, place
from muster.client.errors import ClientError
from muster.wire.api.records import TaskRecord

PIECE = 1 << 20


def log_lines(
    connection: DaemonConnection, which: str, task: str | None, follow: bool
) -> Iterator[str]:
    """Yield the lines of one task's log; of all tasks, prefixed with the log.

    `task`: "worker-0", the newest of that name, or "2/worker-0".
    """
    if task is None and follow:
        return _followed(connection, place("jobs", which, "logs"), prefixed=True)
    if task is None:
        return _all(connection, which)
    if follow and "/" not in task and not _tasks(connection, which):
        # No task exists yet: follow all logs, and pick those of that name.
        path = place("jobs", which, "logs")
        return _followed(connection, path, prefixed=False, only=f"/{task}")
    log = task if "/" in task else _newest(connection, which, task)
    path = place("jobs", which, "logs", *log.split("/"))
    return _followed(connection, path, prefixed=False) if follow else _read(connection, path)


def _tasks(connection: DaemonConnection, which: str) -> list[TaskRecord]:
    return connection.call(list[TaskRecord], "GET", place("jobs", which, "logs"))


def _newest(connection: DaemonConnection, which: str, task: str) -> str:
    tasks = _tasks(connection, which)
    logs = [each.log for each in tasks if each.task == task or each.log.endswith(f"/{task}")]
    if not logs:
        names = ", ".join(dict.fromkeys(each.log for each in tasks)) or "none yet"
        raise ClientError(404, "Not Found", f"job {which} has no log of {task!r}", f"logs: {names}")
    return max(logs, key=lambda log: int(log.partition("/")[0]))


def _all(connection: DaemonConnection, which: str) -> Iterator[str]:
    for log in dict.fromkeys(task.log for task in _tasks(connection, which)):
        try:
            for line in _read(connection, place("jobs", which, "logs", *log.split("/"))):
                yield f"{log} | {line}"
        except ClientError as error:
            if error.status != 404:  # not started yet, or already deleted
                raise


def _read(connection: DaemonConnection, path: str) -> Iterator[str]:
    offset, rest = 0, b""
    while True:
        answer = connection.ask("GET", path, query={"offset": offset, "size": PIECE})
        *lines, rest = (rest + answer.content).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not answer.content:
            break
        offset = int(answer.headers["Log-Next"])
    if rest:
        yield rest.decode("utf-8", "replace")


def _followed(
    connection: DaemonConnection, path: str, *, prefixed: bool, only: str = ""
) -> Iterator[str]:
    rests: dict[str, str] = {}
    for event in connection.follow(path, {"follow": True}):
        piece = msgspec.json.decode(event.data)
        log = piece["log"]
        if not log.endswith(only):
            continue
        *lines, rests[log] = (rests.get(log, "") + piece["text"]).split("\n")
        for line in lines:
            yield f"{log} | {line}" if prefixed else line
    for log, line in rests.items():
        if line:
            yield f"{log} | {line}" if prefixed else line
