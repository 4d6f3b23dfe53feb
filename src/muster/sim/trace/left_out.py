"""Rows that were left out because something was wrong with them."""

from dataclasses import dataclass

from muster.files.errors import InputError


@dataclass(slots=True)
class LeftOut:
    """How many rows of a trace were left out, and what was wrong with the first."""

    count: int = 0
    first: str = ""

    def add(self, error: InputError) -> None:
        """One more."""
        self.count += 1
        self.first = self.first or str(error)

    def note(self) -> str | None:
        """A sentence for people, or None when nothing was left out."""
        if not self.count:
            return None
        rows = "row was" if self.count == 1 else "rows were"
        return f"{self.count} {rows} left out; the first: {self.first}"


def left_out_or_raised(error: InputError, left_out: LeftOut | None) -> None:
    """Count a bad row where somebody counts, else raise."""
    if left_out is None:
        raise error
    left_out.add(error)
