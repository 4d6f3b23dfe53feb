"""What a client offers of the ways into a job."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow to import, and seldom needed
    from muster.client.connecting.connection import DaemonConnection
    from muster.client.inside.command import Executed
    from muster.client.inside.forward import Forward
    from muster.client.inside.visit import VisitConnection


class WaysIn:
    """Enters the tasks of jobs: of the caller's own, for administrators of all."""

    @property
    def connection(self) -> "DaemonConnection":
        """The connection to the daemon."""
        raise NotImplementedError

    def exec(
        self,
        which: str | int,
        command: Sequence[str] = (),
        *,
        rank: int | None = None,
        task: str | None = None,
        given: bytes = b"",
    ) -> "Executed":
        """Run a command beside a task, by default the first worker; return what it printed.

        It has the task's environment, folder and devices. Without a command it is a shell, which reads
        `given`, the command's standard input.
        """
        from muster.client.inside.command import executed

        with self.visit(which, "exec", rank=rank, task=task, command=list(command)) as visit:
            return executed(visit, given)

    def copy_from(
        self, which: str | int, path: str, target: str | Path, *, rank: int | None = None
    ) -> list[str]:
        """Copy a file or folder of a job to this machine, into `target` if that is a folder or ends
        with a slash; return what could not be copied, and why."""
        from muster.client.inside.copy import fetch

        with self.visit(which, "fetch", rank=rank, path=path) as visit:
            return fetch(visit, str(target))

    def copy_to(
        self, which: str | int, source: str | Path, path: str = ".", *, rank: int | None = None
    ) -> list[str]:
        """Copy a file or folder of this machine into a job's folder, as `copy_from` does; return what
        could not be copied, and why."""
        from muster.client.inside.copy import store

        with self.visit(which, "store", rank=rank, path=path) as visit:
            return store(visit, Path(source).absolute())

    def forward(
        self,
        which: str | int,
        port: int,
        local: int | None = None,
        *,
        rank: int | None = None,
        tell: Callable[[str], None] = lambda words: None,
    ) -> "Forward":
        """Reach a port of a task at a port of this machine: `with client.forward(12, 6006) as port:`,
        then `port.local`."""
        from muster.client.inside.forward import Forward

        visit = self.visit(which, "forward", rank=rank, port=port)
        try:
            return Forward(visit, port, local, tell)
        except BaseException:
            visit.__exit__()
            raise

    def visit(
        self,
        which: str | int,
        kind: str,
        *,
        rank: int | None = None,
        task: str | None = None,
        **more: object,
    ) -> "VisitConnection":
        """Open a way into a task, as the API has it (`GET /v1/jobs/{which}/visits`)."""
        from muster.client.inside.visit import VisitConnection

        return VisitConnection(self.connection, which, kind=kind, rank=rank, task=task, **more)
