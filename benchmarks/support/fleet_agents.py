"""Agents without machines, many in one process: they speak the real protocol over real TLS.

Each has a certificate of its own, beats, obeys orders and reports. A task is a timer, of as many s as
the last word of its command says.
Run as a program with a folder of certificates, a port and the names of the nodes.
"""

import asyncio
import contextlib
import random
import ssl
import sys
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from muster.executors.transit import offer_fields, report_fields, task_of
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskId, TaskStarted
from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import (
    DAEMON_LINE,
    AgentAlive,
    AgentHello,
    AgentReport,
    AttachTasks,
    FromAgent,
    RunTask,
    SendSignal,
    Welcome,
)
from muster.wire.agents.pinned import trusting

DEVICES = 8
"""Of a node."""
OFFER = NodeOffer(
    "", 96_000, 10**12, DEVICES, "H100", 80 * 10**9, engine="machines", address="127.0.0.1"
)
PAUSES = 0.05, 5.0
"""s between two attempts to connect, from and to."""
DIALLING = 16
"""Agents of a process that connect at a time: real ones have a machine each."""
HEALTH = {"temperature": 40.0, "load": 1.0, "disk_free": 10**12, "memory_free": 10**11}


@dataclass(slots=True)
class Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def say(self, message: FromAgent) -> None:
        self.writer.write(FROM_AGENT.encode(message))


class PretendedAgent:
    """An agent whose tasks do nothing but last."""

    def __init__(self, node: str, folder: Path, port: int, dialling: asyncio.Semaphore) -> None:
        self._node, self._port, self._dialling = node, port, dialling
        self._context = trusting((folder / "authority.pem").read_text(encoding="ascii"))
        self._context.load_cert_chain(folder / f"{node}.pem")
        self._seq = count(1)
        self._living: set[TaskId] = set()
        self._link: Link | None = None
        self._timers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Connect, serve, and connect again."""
        pause = PAUSES[0]
        while True:
            with contextlib.suppress(OSError, ssl.SSLError, EOFError):
                await self._serve()
                pause = PAUSES[0]
            self._link = None
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause)
            pause = min(2 * pause, PAUSES[1])

    async def _serve(self) -> None:
        async with self._dialling:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1",
                self._port,
                ssl=self._context,
                limit=DAEMON_LINE,
                server_hostname="127.0.0.1",
            )
        link = self._link = Link(reader, writer)
        try:
            offer = offer_fields(replace(OFFER, name=self._node))
            living = tuple(map(str, self._living))
            link.say(AgentHello(self._node, f"run-{self._node}", 0, offer, living))
            welcome = TO_AGENT.decode(await reader.readuntil(b"\n"))
            if not isinstance(welcome, Welcome):
                raise ConnectionError(str(welcome))
            beating = asyncio.create_task(self._beat(link, welcome.beat))
            try:
                while True:
                    self._obey(TO_AGENT.decode(await reader.readuntil(b"\n")))
            finally:
                beating.cancel()
        finally:
            writer.transport.abort()

    async def _beat(self, link: Link, every: float) -> None:
        await asyncio.sleep(random.uniform(0, every))
        for beat in count(1):
            link.say(AgentAlive(HEALTH if beat % 3 == 1 else {}, beat))
            await asyncio.sleep(every)

    def _obey(self, message: object) -> None:
        match message:
            case RunTask(task=text, order={"argv": [*_, life]}):
                self._begin(task_of(text), float(life))
            case SendSignal(task=text, number=number) if number in (9, 15):
                self._end(task_of(text), TaskExited(task_of(text), 0.0, signal=number))
            case AttachTasks(tasks=texts):
                for task in map(task_of, texts):
                    known = task in self._living
                    self._report(TaskStarted(task, 0.0, 1) if known else TaskExited(task, 0.0, 0))

    def _begin(self, task: TaskId, life: float) -> None:
        if task not in self._living:
            self._living.add(task)
            self._report(TaskStarted(task, 0.0, 1))
            timer = asyncio.create_task(self._last(task, life))
            self._timers.add(timer)
            timer.add_done_callback(self._timers.discard)

    async def _last(self, task: TaskId, life: float) -> None:
        await asyncio.sleep(life)
        self._end(task, TaskExited(task, 0.0, 0))

    def _end(self, task: TaskId, report: TaskExited) -> None:
        if task in self._living:
            self._living.discard(task)
            self._report(report)

    def _report(self, report: TaskStarted | TaskExited) -> None:
        if self._link is not None:
            what, fields = report_fields(report)
            self._link.say(AgentReport(next(self._seq), 0.0, what, str(report.task), fields))


async def _run_all(folder: Path, port: int, nodes: list[str]) -> None:
    dialling = asyncio.Semaphore(DIALLING)
    await asyncio.gather(*(PretendedAgent(node, folder, port, dialling).run() for node in nodes))


if __name__ == "__main__":
    asyncio.run(_run_all(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
