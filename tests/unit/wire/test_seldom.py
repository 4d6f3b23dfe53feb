"""Reports of strangers: short and seldom."""

from muster.wire.seldom import LONGEST, SELDOM, SeldomNotes, shortened


def test_a_crowd_makes_one_line_and_the_next_one_counts_it() -> None:
    now, said = [0.0], list[str]()
    note = SeldomNotes(said.append, lambda: now[0])
    for _ in range(1_000):
        note("closed: wrong token")
    assert said == ["closed: wrong token"]
    now[0] += SELDOM
    note("closed: not JSON")
    assert said[1:] == ["closed: not JSON (and 999 more since the last report)"]
    now[0] += SELDOM
    note("closed: not JSON")
    assert said[2:] == ["closed: not JSON"]


def test_a_line_is_one_line_of_printable_text() -> None:
    assert shortened("a\nb\x1b[31m\ud800") == "a?b?[31m?"
    assert len(shortened("x" * 60_000)) == LONGEST + 3
