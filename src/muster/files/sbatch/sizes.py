"""What a script asks for, as tasks of a job: how many, and what each needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.files.sbatch.amounts import bytes_of, gpus_of, gres_of
from muster.files.sbatch.directives import Directive

T = TypeVar("T")

Asked = Mapping[str, Directive]
"""The last directive of each option."""


class UnmappedError(ValueError):
    """A directive that cannot be mapped, and why."""

    def __init__(self, directive: Directive, why: str) -> None:
        super().__init__(why)
        self.directive = directive


@dataclass(frozen=True, slots=True)
class _Tasks:
    count: int
    per_node: int
    together: bool
    """Whether the script wants them on one node."""


def sized(asked: Asked) -> dict[str, Any]:
    """Return the fields of a job file that say how large it is."""
    tasks = _tasks(asked)
    kind, devices = _devices(asked, tasks)
    cores = _number(asked, "cpus-per-task") or (0 if devices else 1)
    worker: dict[str, Any] = {
        "count": str(tasks.count),
        "devices": f"{kind}:{devices}" if kind and devices else str(devices),
    }
    worker |= {"cores": str(cores)} if cores else {}
    memory = _memory(asked, tasks, devices, cores)
    worker |= {"memory": f"{-(-memory // 2**20)}MiB"} if memory else {}
    # On one node, if the script says so and there is something to keep together.
    near = {"locality": "node"} if tasks.together and tasks.count > 1 else {}
    return {"roles": {"worker": worker}, **near}


def _tasks(asked: Asked) -> _Tasks:
    nodes = _parsed(asked, "nodes", _least_nodes)
    count, per_node = _number(asked, "ntasks"), _number(asked, "ntasks-per-node")
    if count is None:
        count = (nodes or 1) * (per_node or 1)
    spread = nodes or (-(-count // per_node) if per_node else 1)
    together = "nodes" in asked and asked["nodes"].value in ("1", "1-1")
    return _Tasks(count, per_node or -(-count // spread), together)


def _least_nodes(text: str) -> int:
    least = text.partition("-")[0]
    if not least.isdigit() or not int(least):
        raise ValueError("is no number of nodes")
    return int(least)


def _devices(asked: Asked, tasks: _Tasks) -> tuple[str, int]:
    """Return the type of devices (empty: any), and how many each task gets."""
    each = _parsed(asked, "gpus-per-task", gpus_of)
    if each is not None:
        return each
    ways = (
        ("gpus-per-node", gpus_of, tasks.per_node, "of a node"),
        ("gres", gres_of, tasks.per_node, "of a node"),
        ("gpus", gpus_of, tasks.count, ""),
    )
    for option, parse, among, whose in ways:
        found = _parsed(asked, option, parse)
        if found is not None:
            kind, count = found
            if count % among:
                why = f"{count} GPUs {whose}".rstrip() + f" cannot be divided among {among} tasks"
                raise UnmappedError(asked[option], f"{why}; write --gpus-per-task")
            return kind, count // among
    return "", 0


def _memory(asked: Asked, tasks: _Tasks, devices: int, cores: int) -> int:
    """Return the bytes of a task; 0: as it comes."""
    shares = (("mem", 1, tasks.per_node), ("mem-per-cpu", cores or 1, 1), ("mem-per-gpu", devices, 1))
    for option, times, among in shares:
        size = _parsed(asked, option, bytes_of)
        if size is not None:
            return size * times // among
    return 0


def _number(asked: Asked, option: str) -> int | None:
    return _parsed(asked, option, _whole)


def _whole(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise ValueError(f"{text!r} is no number above 0")
    return int(text)


def _parsed(asked: Asked, option: str, parse: Callable[[str], T]) -> T | None:
    directive = asked.get(option)
    if directive is None:
        return None
    try:
        return parse(directive.value)
    except ValueError as error:
        raise UnmappedError(directive, str(error)) from None
