"""What others see of a job's program."""

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.service.reading.program_record import MASK, program_record
from muster.model.job import Origin, Program

PLAIN = (("SEED", "7"), ("DATA", "s3://bucket/a@b"), ("HOME", "/home/ada@lab"))


def test_what_is_no_secret_is_shown_as_it_is() -> None:
    record = program_record(Program("/work", PLAIN, origin=Origin(PLAIN, "/bin/sh", "lab")))
    assert record.env == record.inherited == dict(PLAIN)
    assert (record.folder, record.executable, record.host) == ("/work", "/bin/sh", "lab")


@given(
    st.text("ABXY_", max_size=8),
    st.sampled_from(["TOKEN", "SECRET", "KEY", "PASSWORD", "CREDENTIALS", "passwd", "Token"]),
    st.text("ABXY_", max_size=8),
)
def test_the_value_of_a_secret_is_never_shown(before: str, word: str, after: str) -> None:
    environ = ((f"{before}{word}{after}", "geheim"),)
    record = program_record(Program(environ=environ, origin=Origin(environ)))
    assert set(record.env.values()) == set(record.inherited.values()) == {MASK}


@given(st.text("geh:im@", min_size=1), st.sampled_from(["postgres", "https", "redis"]))
def test_the_password_of_a_url_is_never_shown(password: str, scheme: str) -> None:
    url = f"{scheme}://ada:{password}@host:5432/db?a=b"
    record = program_record(Program(environ=(("DATABASE", f"{url} {url}"),)))
    shown = f"{scheme}://{MASK}@host:5432/db?a=b"
    assert record.env == {"DATABASE": f"{shown} {shown}"}
