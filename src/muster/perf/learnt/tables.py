"""Speeds by device type and number of workers, as plain values."""

from dataclasses import dataclass

from muster.model.outlook import Table


@dataclass(frozen=True, slots=True)
class ByType:
    """Speed by device type; 0 on one that is not among them."""

    tables: tuple[tuple[str, Table], ...]

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Return the work per s on this many devices of the type."""
        for name, table in self.tables:
            if name == device_type:
                return table.rate(device_type, workers)
        return 0.0

    def table(self, device_type: str) -> Table | None:
        """Return the speeds on a type; None: it is not among them."""
        return next((table for name, table in self.tables if name == device_type), None)

    def with_batch(self, device_type: str, workers: int, batch: int) -> "ByType":
        """Return the same with another batch on this many devices of a type."""
        return ByType(
            tuple(
                (name, table.with_batch(workers, batch) if name == device_type else table)
                for name, table in self.tables
            )
        )

    def batch(self, device_type: str, workers: int) -> int | None:
        """Return the best batch there; None: the job's own."""
        for name, table in self.tables:
            if name == device_type:
                return table.batch(device_type, workers)
        return None
