"""Files and folders as a stream."""

import io
from pathlib import Path

import pytest

from muster.wire.visits.copying import pack, unpack


@pytest.mark.parametrize("blocks", range(20))
def test_a_stream_is_read_to_its_end_wherever_its_end_mark_lies(tmp_path: Path, blocks: int) -> None:
    # A tar pads itself to 20 blocks of 512 bytes: its end mark may lie before the last of them, and a
    # reader that stops there breaks the pipe of a sender that has not written the rest.
    (source := tmp_path / "data").write_bytes(b"x" * 512 * blocks)
    stream, missed = io.BytesIO(), list[str]()
    pack(source, stream, missed.append)
    stream.seek(0)
    unpack(stream, tmp_path / "copy", missed.append)
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert (stream.read(), missed) == (b"", [])
