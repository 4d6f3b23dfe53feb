"""What workers note in each step, for a plain training that needs to know what each of them had."""

from pathlib import Path
from typing import Any


def note(folder: Path, ctx: Any, *numbers: int) -> None:
    """Note numbers of this worker for the step under way."""
    with (folder / "noted").open("a") as file:
        print(ctx.step, ctx.formation, ctx.first, *numbers, file=file)


def noted(folder: Path) -> list[list[list[int]]]:
    """Return the numbers of each worker in each step: those of its last formation, in order."""
    steps: dict[int, dict[int, list[list[int]]]] = {}
    for line in (folder / "noted").read_text().splitlines():
        step, formation, *numbers = map(int, line.split())
        steps.setdefault(step, {}).setdefault(formation, []).append(numbers)
    last = [sorted(steps[step][max(steps[step])]) for step in range(len(steps))]
    return [[numbers for _, *numbers in found] for found in last]
