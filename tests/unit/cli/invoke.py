"""Commands as a user types them."""

from collections.abc import Sequence
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from muster.cli.main import app

ROOT = get_command(app)


def invoke(words: Sequence[str], **more: Any) -> Result:
    """Run a command, however it ends."""
    with pytest.MonkeyPatch.context() as patch:
        # Its own way builds all commands again for each test, which takes a third of the time.
        patch.setattr("typer.testing._get_command", lambda _: ROOT)
        return CliRunner().invoke(app, words, **more)


def muster(*words: object, code: int = 0, **more: Any) -> Result:
    """Run a command that ends with this code."""
    result = invoke([str(word) for word in words], **more)
    assert result.exit_code == code, result.output
    return result
