"""What is new in the answer of a cycle: in a long queue, most jobs wait for the reason they had."""

from collections.abc import Iterable, Iterator

from muster.model.decision import Decision, Kind


class News:
    """Follows the answers of one cycle."""

    def __init__(self) -> None:
        self._told: dict[int, Decision] = {}
        """Why jobs wait, as the last answer has it."""

    def of(self, decisions: Iterable[Decision], *, adopted: bool) -> tuple[Decision, ...]:
        """Return all decisions but those to wait for the reason of the last answer; `adopted`: whether
        that is in the journal, else nobody knows it."""
        before, self._told = (self._told if adopted else {}), {}
        return tuple(self._news(decisions, before))

    def _news(self, decisions: Iterable[Decision], before: dict[int, Decision]) -> Iterator[Decision]:
        for each in decisions:
            if each.kind is Kind.WAIT:
                self._told[each.job] = each
            if each.kind is not Kind.WAIT or before.get(each.job) != each:
                yield each
