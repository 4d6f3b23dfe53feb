"""What the journal says of each job's tasks: the fold of the facts that the view does not keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.daemon.gang.exits import blame
from muster.model.event import Cancelled, Ended, StartBegun
from muster.model.placement import Slot
from muster.model.task import Fact, RuntimeSeen, StopAsked, TaskEnded, TaskOrdered


@dataclass(frozen=True, slots=True)
class GangImage:
    """One job's tasks, enough to take them up again after a restart."""

    tasks: tuple[TaskOrdered, ...] = ()
    """Ordered, and not seen to end."""
    used: tuple[str, ...] = ()
    """Names that its tasks have had."""
    orders: Mapping[str, int] = field(default_factory=dict)
    """How often each place of the current run was ordered a task for, by `place_of`: the next has that
    number, so that none is ever ordered twice."""
    done: tuple[Slot, ...] = ()
    """Slots of the current run whose task has ended well."""
    live: bool = False
    stopping: bool = False
    failures: int = 0
    losses: int = 0
    error: str = ""
    """How its first task failed, with the last lines of its log."""


def place_of(generation: int, slot: Slot) -> str:
    """A task's place, as long as its generation is the current one."""
    return f"{generation}/{slot.role}-{slot.index}"


def folded(images: Mapping[int, GangImage], fact: Fact) -> Mapping[int, GangImage]:
    """The images after a fact."""
    if isinstance(fact, Ended | Cancelled):
        return {job: image for job, image in images.items() if job != fact.job}
    if isinstance(fact, TaskOrdered | TaskEnded | RuntimeSeen | StopAsked | StartBegun):
        return {**images, fact.job: _image(images.get(fact.job, GangImage()), fact)}
    return images


def _image(
    image: GangImage, fact: TaskOrdered | TaskEnded | RuntimeSeen | StopAsked | StartBegun
) -> GangImage:
    if isinstance(fact, TaskOrdered):
        used = image.used if fact.name in image.used else (*image.used, fact.name)
        tasks = (*image.tasks, fact)
        place = place_of(fact.task.generation, fact.slot)
        orders = {**image.orders, place: image.orders.get(place, 0) + 1}
        return replace(image, tasks=tasks, used=used, orders=orders)
    if isinstance(fact, TaskEnded):
        return _without(image, fact)
    if isinstance(fact, RuntimeSeen):
        return replace(image, live=True)
    if isinstance(fact, StopAsked):
        return replace(image, stopping=True)
    return replace(image, done=(), orders={})


def _without(image: GangImage, fact: TaskEnded) -> GangImage:
    gone = [task for task in image.tasks if task.task == fact.exited.task]
    done = tuple(task.slot for task in gone) if fact.exited.code == 0 else ()
    return replace(
        image,
        tasks=tuple(task for task in image.tasks if task not in gone),
        done=(*image.done, *done),
        failures=image.failures + fact.fault,
        error=image.error or (blame(fact.exited, fact.tail) if fact.fault else ""),
        losses=image.losses + fact.lost,
    )
