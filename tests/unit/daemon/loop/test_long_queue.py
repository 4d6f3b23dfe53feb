"""What a turn costs in a long queue: it is counted what is touched, not for how long."""

import asyncio
from pathlib import Path

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop import loop
from muster.daemon.loop.entry import Entry
from muster.model.event import Submitted
from muster.model.job import Job
from muster.store.batch import Batch
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until

MANY = 5_000


def waiting(first: int, count: int) -> list[Job]:
    """Jobs that need all devices of the node, beside one that holds some."""
    asked = (program(f"w{first + i}", workers=4) for i in range(count))
    return [numbered(each, first + i) for i, each in enumerate(asked)]


def numbered(job: Job, number: int) -> Job:
    object.__setattr__(job, "number", number)
    return job


def watched(made: RunningDaemon) -> list[Batch]:
    """Every batch that is written from now on."""
    found: list[Batch] = []
    write = made.daemon.store.write

    def seen(batch: Batch) -> tuple[int, int]:
        found.append(batch)
        return write(batch)

    made.daemon.store.write = seen  # type: ignore[method-assign]
    return found


async def submitted(made: RunningDaemon, jobs: list[Job]) -> None:
    now = made.daemon.clock.now()
    await made.daemon.put(Entry([Submitted(each, now) for each in jobs]))


async def settled(made: RunningDaemon) -> None:
    """Until a cycle has told every job why it waits."""
    daemon = made.daemon
    await until(made, lambda: all(each.code for each in daemon.summaries.values()))
    await until(made, lambda: daemon.deciding.memory is not None and daemon.cycles > 0)


def test_what_one_job_changes_is_written_and_nothing_of_five_thousand_that_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("runs", workers=2))
            await submitted(made, waiting(10, MANY))
            await settled(made)
            before, batches = made.daemon.cycles, watched(made)
            await submitted(made, waiting(10_000, 1))
            await until(made, lambda: made.daemon.cycles >= before + 3)
            await settled(made)
            told = [record.number for batch in batches for record in batch.records]
            others = {number for number in told if 10 <= number < 10_000}
            assert 10_000 in told
            assert len(others) < 10, "those whose own reason has changed"
            assert made.daemon.places.place(10_000) == MANY + 1

    asyncio.run(scenario())


def test_reasons_of_many_new_jobs_are_written_in_parts_and_submissions_come_between(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("runs", workers=2))
            await submitted(made, waiting(10, 10 * loop.RECORDS_AT_ONCE))
            batches = watched(made)
            reasons = made.daemon.noted

            def one_more(facts: object) -> None:
                """Posted with the first reasons."""
                if len(batches) == 1:
                    made.daemon.post(Entry([Submitted(waiting(9_000, 1)[0], 1.0)]))

            reasons.append(one_more)
            await settled(made)
            assert max(len(batch.facts) for batch in batches) <= loop.RECORDS_AT_ONCE + 1
            with_new = [any(isinstance(f, Submitted) for f in batch.facts) for batch in batches]
            assert with_new.index(True) < 3

    asyncio.run(scenario())
