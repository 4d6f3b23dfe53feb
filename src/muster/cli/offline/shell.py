"""What the shell and `man` know about the command. Quick to import."""

from typing import Annotated, Literal

import typer

from muster.cli.group import Commands
from muster.cli.options import OFFLINE

shell = Commands()

ShellName = Literal["bash", "zsh", "fish"]
COMPLETE = "_MUSTER_COMPLETE"
"""Set while a shell asks for completions."""

_REGISTERS = "compdef _muster_completion muster"
_ANSWERS = """if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _muster_completion "$@"
else
  compdef _muster_completion muster
fi"""
"""zsh loads a file of its fpath at the first use, which is a question already."""


@shell.command(rich_help_panel=OFFLINE)
def completion(
    name: Annotated[ShellName, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion of commands, options and job names for a shell.

    Examples:
      muster completion bash > ~/.local/share/bash-completion/completions/muster
      muster completion zsh > ~/.zfunc/_muster      with ~/.zfunc in fpath
      muster completion fish > ~/.config/fish/completions/muster.fish
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="muster", complete_var=COMPLETE, shell=name)
    typer.echo(script.replace(_REGISTERS, _ANSWERS) if name == "zsh" else script)


@shell.command(rich_help_panel=OFFLINE)
def man() -> None:
    """Show the manual page: every command and option, from their help. In a pipe, its source.

    Example: muster man > muster.1
    """
    from muster.cli.offline.man_page import show_man_page

    raise typer.Exit(show_man_page())
