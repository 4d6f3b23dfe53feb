"""Commands as a user types them."""

from typing import Any

from typer.testing import CliRunner, Result

from muster.cli.main import app


def muster(*words: object, code: int = 0, **more: Any) -> Result:
    """Run a command that ends with this code."""
    result = CliRunner().invoke(app, [str(word) for word in words], **more)
    assert result.exit_code == code, result.output
    return result
