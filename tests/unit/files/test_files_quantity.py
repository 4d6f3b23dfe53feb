"""Amounts as people write them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.files.source.quantity import (
    Counts,
    Devices,
    parse_cores,
    parse_counts,
    parse_devices,
    parse_duration,
    parse_flag,
    parse_name,
    parse_number,
    parse_percentage,
    parse_rate,
    parse_size,
    parse_user,
    parse_whole,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5TB", 1_500_000_000_000),
        ("16 GB", 16 * 10**9),
        ("0B", 0),
        ("2kB", 2000),
        ("2KB", 2000),
        ("1PiB", 2**50),
        ("0.1GB", 100_000_000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200.0),
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("45s", 45.0),
        ("250ms", 0.25),
        ("2d", 172_800.0),
        ("5us", 5e-6),
        ("10ns", 1e-8),
        ("1.5h", 5400.0),
        ("1m500ms", 60.5),
        ("0s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [("16GB/s", 16e9), ("100Gbit/s", 12.5e9), ("1GiB/s", 2.0**30), ("10 Mbit/s", 1.25e6)],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


def test_percentages_cores_numbers_and_flags() -> None:
    assert parse_percentage("5%") == 0.05
    assert parse_percentage("12.5 %") == 0.125
    assert parse_cores("0.5") == 500
    assert parse_cores("16") == 16_000
    assert parse_number("0.5") == 0.5
    assert parse_flag("true") is parse_flag("yes") is True
    assert parse_flag("false") is parse_flag("no") is False
    assert parse_whole("-3", -5, 5) == -3
    assert parse_name("A100-80GB") == "A100-80GB"
    assert parse_user("ada@lab.org") == "ada@lab.org"


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("4", Devices(None, Counts(4, 4))),
        ("1..8", Devices(None, Counts(1, 8))),
        ("1 .. 8", Devices(None, Counts(1, 8))),
        ("V100:4", Devices("V100", Counts(4, 4))),
        ("V100:1..8", Devices("V100", Counts(1, 8))),
        ("A100-80GB: 2", Devices("A100-80GB", Counts(2, 2))),
        ("0", Devices(None, Counts(0, 0))),
    ],
)
def test_devices(text: str, devices: Devices) -> None:
    assert parse_devices(text) == devices


_SIZE = "write for example 24GB or 512MiB"
_RATE = "write for example 16GB/s or 100Gbit/s"
_TIME = "write for example 2h, 1h30m, 45s or 250ms"
_COUNT = "write for example 4 or 1..8"
_NAME = "use up to 63 letters, digits, '.', '-' and '_', for example lab-1"


@pytest.mark.parametrize(
    ("parse", "text", "sentence"),
    [
        (parse_size, "16", f"'16' has no unit; {_SIZE}"),
        (parse_size, "64gb", f"'64gb' is not a size; {_SIZE} (did you mean '64GB'?)"),
        (parse_size, "16G", f"'16G' is not a size; {_SIZE} (did you mean '16GB'?)"),
        (parse_size, "-4GB", f"'-4GB' is not a size; {_SIZE}"),
        (parse_size, "", f"'' is not a size; {_SIZE}"),
        (parse_size, "٣GB", f"'٣GB' is not a size; {_SIZE}"),
        (parse_size, "9" * 60, f"'{'9' * 39}…' is not a size; {_SIZE}"),
        (
            parse_size,
            "9999999PB",
            "'9999999PB' is too large; write for example 24GB",
        ),
        (parse_rate, "12", f"'12' has no unit; {_RATE}"),
        (parse_rate, "0GB/s", "'0GB/s' is out of range; write for example 16GB/s"),
        (parse_rate, "10Gb/s", f"'10Gb/s' is not a rate; {_RATE} (did you mean '10Gbit/s'?)"),
        (parse_rate, "10Gbps", f"'10Gbps' is not a rate; {_RATE} (did you mean '10Gbit/s'?)"),
        (parse_rate, "10GB", f"'10GB' is not a rate; {_RATE} (did you mean '10GB/s'?)"),
        (parse_duration, "90", f"'90' has no unit; {_TIME}"),
        (parse_duration, "30m1h", f"'30m1h' is not a time; {_TIME}"),
        (parse_duration, "inf", f"'inf' is not a time; {_TIME}"),
        (parse_duration, "-1h", f"'-1h' is not a time; {_TIME}"),
        (parse_duration, "", f"'' is not a time; {_TIME}"),
        (parse_duration, "99999d", f"'99999d' is longer than a hundred years; {_TIME}"),
        (parse_percentage, "0.05", "'0.05' is not a percentage; write for example 5%"),
        (parse_percentage, "-5%", "'-5%' is not a percentage; write for example 5%"),
        (parse_cores, ".nan", "'.nan' is not a number of cores; write for example 4 or 0.5"),
        (
            parse_cores,
            "0.0001",
            "'0.0001' is more precise than a thousandth of a core; write for example 0.5",
        ),
        (parse_number, "1e400", "'1e400' is not a number of 0 or more; write for example 2 or 0.5"),
        (parse_counts, "8..1", "'8..1' runs backwards (did you mean '1..8'?)"),
        (parse_counts, "1-8", f"'1-8' is not a count; {_COUNT} (did you mean '1..8'?)"),
        (parse_counts, "-1", f"'-1' is not a count; {_COUNT}"),
        (parse_counts, "1.5", f"'1.5' is not a count; {_COUNT}"),
        (parse_counts, "1..", f"'1..' is not a count; {_COUNT}"),
        (parse_counts, "1000000", "must be at most 100000, not 1000000"),
        (parse_devices, "V100", "'V100' has no count; write for example V100:4 or 1..8"),
        (parse_devices, "V100:", f"'' is not a count; {_COUNT}"),
        (parse_devices, ":4", f"'' is not a name; {_NAME}"),
        (parse_devices, "V 100:4", f"'V 100' is not a name; {_NAME}"),
        (parse_name, "a\n", f"'a\n' is not a name; {_NAME}"),
        (parse_user, "a b", "'a b' is not a user's name; write for example ada"),
        (parse_flag, "maybe", "'maybe' is neither true nor false"),
    ],
)
def test_bad_text_gets_a_sentence(parse: Callable[[str], object], text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("4.5", "'4.5' is not a whole number; write for example 4"),
        ("true", "'true' is not a whole number; write for example 4"),
        ("0", "must be at least 1, not 0"),
        ("17", "must be at most 16, not 17"),
    ],
)
def test_whole_numbers_have_bounds(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_whole(text, 1, 16)
    assert str(caught.value) == sentence


@given(st.integers(0, 10**9), st.sampled_from(["B", "KB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * parse_size(f"1{unit}")


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_range_is_read_back(a: int, b: int) -> None:
    low, high = sorted((a, b))
    assert parse_counts(f"{low}..{high}") == Counts(low, high)
