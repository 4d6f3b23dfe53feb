"""Results of collectives, kept for those that missed one and for steps that are redone."""

from muster.runtime.members.results import ResultLog


def at_step(done: int, *results: int) -> ResultLog:
    """A worker that has done some steps and called collectives since."""
    log = ResultLog()
    log.sum(done)
    log.keep()
    for result in results:
        log.add(result)
        log.read()
    return log


def test_one_that_missed_a_result_reads_it() -> None:
    ahead, behind = at_step(3, 10, 11), at_step(3, 10)
    behind.adopt([ahead.value(), behind.value()], 3)
    assert behind.is_known
    assert behind.read() == 11
    assert not behind.is_known


def test_a_redone_step_reads_what_its_first_run_agreed_on() -> None:
    log = at_step(3, 10)
    log.begin_step()
    log.add(11)
    assert log.read() == 11
    log.sum(4)
    log.add("void")
    log.read()
    log.end_void(3)
    log.begin_step()
    assert log.read() == 11
    log.sum(4)
    assert not log.is_known, "what came after the sum is agreed on again"


def test_one_in_the_next_step_knows_what_one_behind_has_missed() -> None:
    ahead, behind = at_step(3, 10, 11), at_step(3, 10)
    ahead.begin_step()
    ahead.sum(4)
    behind.adopt([ahead.value(), behind.value()], 3)
    assert behind.read() == 11


def test_a_void_step_that_others_have_done_is_not_redone() -> None:
    done, void = at_step(4, 20), at_step(3)
    void.begin_step()
    void.sum(4)
    void.adopt([done.value()], 4)
    assert void.read() == 20
    void.end_void(4)
    assert void.section == 4
    assert not void.is_known


def test_a_joiner_begins_where_the_others_are() -> None:
    joiner = ResultLog()
    joiner.adopt([at_step(7, 1, 2).value(), joiner.value()], 7)
    assert joiner.section == 7
    assert not joiner.is_known
    joiner.begin_step()
    joiner.sum(8)
    joiner.end_void(7)
    assert not joiner.is_known, "it has not missed what it was not there for"
