"""Options of `muster run` for sessions. Quick to import."""

from dataclasses import dataclass
from typing import Annotated

from muster.cli.options import option

SESSION = "Interactive"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a job is used by a person."""

    interactive: Annotated[
        bool,
        option(
            SESSION,
            "A shell on devices, or a command on a terminal: waits for them, then attaches.",
            "--interactive",
            "-i",
        ),
    ] = False
    idle: Annotated[
        str,
        option(
            SESSION,
            "End it after this time without typing, output or computing; 0: never.",
            metavar="TIME",
        ),
    ] = "30m"
    jupyter: Annotated[
        bool,
        option(SESSION, "JupyterLab on devices, at a port of this machine.", "--jupyter"),
    ] = False

    @property
    def wanted(self) -> bool:
        return self.interactive or self.jupyter
