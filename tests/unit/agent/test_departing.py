"""What an engine's script says of a node's end before it signals the agent."""

from pathlib import Path

import pytest

from muster.agent.node.departing import TAKEN, read_notice


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("20 preempted by Slurm\n", (20.0, "preempted by Slurm")),
        ("-3 its allocation ends", (0.0, "its allocation ends")),
        ("7", (7.0, TAKEN)),
        ("soon", (30.0, TAKEN)),
        (None, (30.0, TAKEN)),
    ],
)
def test_a_notice_says_how_long_there_is_and_the_grace_stands_without_one(
    tmp_path: Path, text: str | None, told: tuple[float, str]
) -> None:
    if text is not None:
        (tmp_path / "notice").write_text(text)
    assert read_notice(tmp_path, 30.0) == told
