"""Which objects collections look at."""

import gc
import weakref

from muster.app.collecting import look_at_all, set_aside


class Knot:
    """In a cycle with itself."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_set_aside_alive_is_found_by_the_next_look_at_all() -> None:
    try:
        knot = Knot()
        dies = weakref.ref(knot)
        set_aside()
        assert gc.get_freeze_count() > 0
        del knot
        gc.collect()
        assert dies() is not None, "no collection looks at it"
        look_at_all()
        assert dies() is None
    finally:
        gc.unfreeze()


def test_young_cycles_are_not_set_aside() -> None:
    try:
        dies = weakref.ref(Knot())
        set_aside()
        assert dies() is None
    finally:
        gc.unfreeze()
