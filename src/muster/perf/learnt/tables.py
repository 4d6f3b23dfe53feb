"""Speeds as plain values: by device type and number of workers, with the batch that is best there."""

from dataclasses import dataclass

from muster.model.outlook import Table


@dataclass(frozen=True, slots=True)
class Tuned:
    """Speed by the number of workers, each with its best batch: entry k - 1 is that of k."""

    rates: tuple[float, ...]
    batches: tuple[int, ...]

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Work per s; beyond the table that of its last entry."""
        return self.rates[min(workers, len(self.rates)) - 1] if workers > 0 else 0.0

    def batch(self, device_type: str, workers: int) -> int | None:
        """The batch that is best now."""
        return self.batches[min(max(workers, 1), len(self.batches)) - 1]


@dataclass(frozen=True, slots=True)
class ByType:
    """Speed by device type; 0 on one that is not among them."""

    tables: tuple[tuple[str, Table | Tuned], ...]

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Work per s on so many devices of the type."""
        for name, table in self.tables:
            if name == device_type:
                return table.rate(device_type, workers)
        return 0.0

    def batch(self, device_type: str, workers: int) -> int | None:
        """The batch that is best there; None: the job's own."""
        for name, table in self.tables:
            if name == device_type:
                return table.batch(device_type, workers)
        return None
