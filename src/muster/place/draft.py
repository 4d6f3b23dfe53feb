"""A placement under construction, on top of a board that stays unchanged."""

from collections.abc import Callable

from muster.model.choice import Choice, ChoiceTable
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Part
from muster.place.board import Board, fitting

Choose = Callable[[ChoiceTable, int, int], Choice | None]


class Draft:
    """Collects tasks by node; `finish` chooses the exact bits of each node at once."""

    def __init__(self, board: Board, choose: Choose, beside: Placement | None = None) -> None:
        self._board = board
        self._choose = choose
        self._held: dict[int, int] = {}
        self._next: dict[Role, int] = {}
        if beside is not None:
            self._held = {board.index(name): bits for name, bits in beside.bits().items()}
            for slot in beside.slots:
                self._next[slot.role] = max(self._next.get(slot.role, 0), slot.index + 1)
        self._tasks: dict[int, list[Part]] = {}
        self._millicores: dict[int, int] = {}
        self._memory: dict[int, int] = {}
        self._devices: dict[int, int] = {}

    def nodes(self) -> list[int]:
        """Return the nodes in use so far."""
        return list(self._tasks)

    def fitting(self, node: int, need: Need) -> int:
        """Return how many more tasks of this need the node could take."""
        board = self._board
        if node not in self._tasks:
            return board.tasks_fitting(node, need)
        return fitting(
            need,
            board.free[node].bit_count() - self._devices[node],
            board.millicores[node] - self._millicores[node],
            board.memory[node] - self._memory[node],
        )

    def put(self, node: int, part: Part, count: int) -> None:
        """Put tasks of a part on a node."""
        need = part.need
        self._tasks.setdefault(node, []).append(Part(part.role, count, need))
        self._devices[node] = self._devices.get(node, 0) + count * need.devices
        self._millicores[node] = self._millicores.get(node, 0) + count * need.millicores
        self._memory[node] = self._memory.get(node, 0) + count * need.memory

    def finish(self) -> Placement:
        """Return the placement, tasks numbered by role in the order of the nodes."""
        slots: list[Slot] = []
        for node in sorted(self._tasks):
            slots.extend(self._slots_on(node))
        return Placement(tuple(slots))

    def _slots_on(self, node: int) -> list[Slot]:
        board, wanted = self._board, self._devices[node]
        table, name = board.shelf_of[node].table, board.names[node]
        left = self._chosen(node, wanted).bits if wanted else 0
        slots = []
        for part in self._tasks[node]:
            role, need, devices = part.role, part.need, part.need.devices
            first = self._next.get(role, 0)
            self._next[role] = first + part.count
            for index in range(first, first + part.count):  # hot path: of every task placed
                bits = left & -left if devices == 1 else _closest(table, left, devices)
                left &= ~bits
                slots.append(Slot(role, index, name, bits, need))
        return slots

    def _chosen(self, node: int, wanted: int) -> Choice:
        table, free = self._board.shelf_of[node].table, self._board.free[node]
        held = self._held.get(node, 0)
        choice = table.beside(free, held, wanted) if held else self._choose(table, free, wanted)
        assert choice is not None, "tasks were put on a node without room for them"
        return choice


def _closest(table: ChoiceTable, left: int, devices: int) -> int:
    if devices <= 1:
        return left & -left if devices else 0
    choice = table.pack(left, devices)
    assert choice is not None
    return choice.bits
