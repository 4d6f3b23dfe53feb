"""What every benchmark prints: tables as they are measured, then one line per target."""

from collections.abc import Iterable, Sequence


def bar(name: str, figure: float, target: float, *, above: bool = False) -> None:
    """Print one target's line."""
    fine = figure >= target if above else figure <= target
    sign = ">=" if above else "<="
    print(f"bar: {name} {figure:.4g} {sign}{target:.4g} {'ok' if fine else 'short'}")


def print_table(heading: str, rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a heading, right-aligned, each row as soon as it is known."""
    print(" ".join(f"{word:>10}" for word in heading.split()))
    for row in rows:
        print(" ".join(f"{cell:>10}" for cell in row), flush=True)
    print()
