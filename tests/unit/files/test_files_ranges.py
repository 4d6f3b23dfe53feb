"""Many names in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.files.cluster.ranges import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu1", ("gpu1",)),
        ("gpu[1-3]", ("gpu1", "gpu2", "gpu3")),
        ("gpu[1-3,7]", ("gpu1", "gpu2", "gpu3", "gpu7")),
        ("gpu[009-011]", ("gpu009", "gpu010", "gpu011")),
        ("gpu[9-11]", ("gpu9", "gpu10", "gpu11")),
        ("gpu[08-10].lab", ("gpu08.lab", "gpu09.lab", "gpu10.lab")),
        ("gpu[01-1]", ("gpu01",)),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("[1-2]", ("1", "2")),
    ],
)
def test_ranges_are_spelled_out(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


_EXAMPLE = "write for example gpu[001-064] or gpu[1-3,7]"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpu[4-1]", f"'gpu[4-1]' runs backwards from 4 to 1; {_EXAMPLE}"),
        ("gpu[1-04]", f"'gpu[1-04]' has 1 and 04 of different width; {_EXAMPLE}"),
        ("gpu[]", f"'gpu[]' is not a range of names; {_EXAMPLE}"),
        ("gpu[a-c]", f"'gpu[a-c]' is not a range of names; {_EXAMPLE}"),
        ("gpu[1-2", f"'gpu[1-2' has an unbalanced bracket; {_EXAMPLE}"),
        ("gpu1-2]", f"'gpu1-2]' has an unbalanced bracket; {_EXAMPLE}"),
        ("g[[1-2]]", f"'g[[1-2]]' has an unbalanced bracket; {_EXAMPLE}"),
        ("gpu[1-4,2]", "'gpu[1-4,2]' names 'gpu2' twice"),
        ("n[1-100001]", "'n[1-100001]' expands to 100001 names, more than 100000"),
        (
            "n[0-999999999]m[0-999999999]",
            "'n[0-999999999]m[0-999999999]' expands to 1000000000000000000 names, more than 100000",
        ),
        (
            "my gpu[1-2]",
            "'my gpu1' is not a name; use up to 63 letters, digits, '.', '-' and '_', "
            "for example lab-1",
        ),
    ],
)
def test_bad_ranges_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        expand(text)
    assert str(caught.value) == sentence


@given(st.integers(0, 5000), st.integers(0, 300), st.integers(1, 6))
def test_a_range_names_every_number_once_in_order(first: int, more: int, width: int) -> None:
    last = first + more
    low = str(first).zfill(width)
    high = str(last).zfill(len(low))
    names = expand(f"n[{low}-{high}]")
    assert [int(name[1:]) for name in names] == list(range(first, last + 1))
    assert all(len(name) >= len(low) + 1 for name in names)
