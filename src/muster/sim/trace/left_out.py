"""Invalid rows that were skipped."""

from dataclasses import dataclass

from muster.files.errors import InputError


@dataclass(slots=True)
class LeftOut:
    """The number of skipped rows of a trace, and the error of the first."""

    count: int = 0
    first: str = ""

    def add(self, error: InputError) -> None:
        self.count += 1
        self.first = self.first or str(error)

    def note(self) -> str | None:
        """Return a note, or None if nothing was skipped."""
        if not self.count:
            return None
        rows = "row was" if self.count == 1 else "rows were"
        return f"{self.count} {rows} skipped; the first: {self.first}"


def left_out_or_raised(error: InputError, left_out: LeftOut | None) -> None:
    """Count a bad row if rows may be skipped, else raise."""
    if left_out is None:
        raise error
    left_out.add(error)
