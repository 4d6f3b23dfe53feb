"""A picture of the cluster: a row for each node, a letter for each device."""

from rich.table import Table
from rich.text import Text

from muster.model.cluster import Node, NodeState
from muster.model.job import Job
from muster.model.topology import ConfigurationSet, Level
from muster.model.view import View

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
FREE, GONE = "·", "x"
_SHARED = "*"


def letters(jobs: list[Job]) -> dict[int, str]:
    """Give each job a letter, by number; `*` once they run out."""
    return {job.number: _LETTERS[i] if i < len(_LETTERS) else _SHARED for i, job in enumerate(jobs)}


def picture(view: View, letter_of: dict[int, str]) -> Table:
    """Draw the nodes: devices grouped by switch (a space) and socket (a bar), cores and memory in use.

    A run of idle nodes of one configuration is one row.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("NODE", "RACK", "TYPE", "DEVICES"):
        table.add_column(heading, no_wrap=True)
    table.add_column("CORES", justify="right")
    table.add_column("MEMORY", justify="right")
    table.add_column("CPU TASKS")
    owners = _owners(view)
    for run in _runs(view):
        node = run[0]
        kind = view.cluster.configuration_of(node)
        table.add_row(
            _first_to_last([node.name for node in run]),
            _first_to_last([node.rack for node in run]),
            kind.device_type or "CPU",
            _devices(node, kind, owners.get(node.name, {}), letter_of),
            f"{(kind.millicores - node.millicores) / 1000:g}/{kind.millicores / 1000:g}",
            f"{(kind.memory - node.memory) / 1e9:.0f}/{kind.memory / 1e9:.0f} GB",
            _bare_tasks(view, node.name, letter_of),
        )
    return table


def _runs(view: View) -> list[list[Node]]:
    """Group neighbouring idle nodes of one configuration."""
    runs: list[list[Node]] = []
    for node in view.cluster.nodes:
        alike = runs and node.configuration == runs[-1][0].configuration
        if alike and _idle(view, node) and _idle(view, runs[-1][0]):
            runs[-1].append(node)
        else:
            runs.append([node])
    return runs


def _idle(view: View, node: Node) -> bool:
    kind = view.cluster.configuration_of(node)
    whole = (kind.all_devices, kind.millicores, kind.memory, NodeState.UP)
    return (node.free, node.millicores, node.memory, node.state) == whole


def _first_to_last(names: list[str]) -> str:
    return names[0] if names[0] == names[-1] else f"{names[0]} .. {names[-1]}"


def legend(view: View, letter_of: dict[int, str]) -> Text:
    """Which letter is which job, for jobs that hold something."""
    text = Text()
    for state in view.jobs.values():
        if state.held():
            letter = letter_of[state.number]
            text.append(letter, style=style(letter))
            text.append(f" {state.job.name}  ")
    text.append(f"{FREE} free", style="dim")
    return text


def letter_of_number(number: int) -> str:
    """The letter that a job keeps all its life; reused after 52 jobs."""
    return _LETTERS[(number - 1) % len(_LETTERS)]


def style(letter: str) -> str:
    return f"bold {_COLOURS[_LETTERS.find(letter) % len(_COLOURS)]}"


def _owners(view: View) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for state in view.jobs.values():
        for slot in state.held():
            there = found.setdefault(slot.node, {})
            for position in range(slot.bits.bit_length()):
                if slot.bits >> position & 1:
                    there[position] = state.number
    return found


def _devices(
    node: Node, kind: ConfigurationSet, owners: dict[int, int], letter_of: dict[int, str]
) -> Text:
    text = Text()
    for position in range(kind.devices):
        text.append(_gap(kind, position))
        owner = owners.get(position)
        if owner is not None:
            text.append(letter_of[owner], style=style(letter_of[owner]))
        else:
            text.append(FREE if node.state is NodeState.UP else GONE, style="dim")
    return text


def _gap(kind: ConfigurationSet, position: int) -> str:
    """The separator before a device: none, a switch or a socket boundary."""
    if position == 0:
        return ""
    level = kind.level_of(0b11 << (position - 1))
    if level is Level.SWITCH:
        return ""
    return " " if level is Level.SOCKET else " | "


def _bare_tasks(view: View, node: str, letter_of: dict[int, str]) -> Text:
    text = Text()
    for state in view.jobs.values():
        for slot in state.held():
            if slot.node == node and not slot.bits:
                text.append(f"{letter_of[state.number]}:{slot.role}-{slot.index} ")
    return text
