"""The manual page `muster(1)`, made from the help of every command."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import typer

from muster.cli.exits import MEANINGS
from muster.cli.render.terminal import on_terminal

_RUN_ON = re.compile(r"\s+")


def show_man_page() -> int:
    """Show the page with `man` on a terminal, else print its source; return the exit code."""
    page = man_page(_group())
    if on_terminal() and shutil.which("man"):
        return subprocess.run(["man", "-l", "-"], input=page.encode(), check=False).returncode
    typer.echo(page, nl=False)
    return 0


def _group() -> Any:
    from typer.main import get_command

    from muster.cli.main import app  # which imports the commands

    return get_command(app)


def man_page(group: Any) -> str:
    """Return the source of the page, in roff's `man` macros."""
    lines = [
        '.TH MUSTER 1 "" "Muster" "User Commands"',
        ".SH NAME",
        f"muster \\- {_escaped(_first(group.help)[0].lower() + _first(group.help)[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B muster",
        "[\\-\\-version] [\\-h] COMMAND [ARGUMENTS]",
        ".SH COMMANDS",
    ]
    for words, command in _commands(group, "muster"):
        lines += _section(words, command)
    lines.append(".SH EXIT STATUS")
    for code, meaning in MEANINGS.items():
        lines += [".TP", str(code), _escaped(meaning)]
    lines += [".SH ENVIRONMENT"]
    for name, text in _ENVIRONMENT.items():
        lines += [".TP", f".B {name}", _escaped(text)]
    return "\n".join(lines) + "\n"


_ENVIRONMENT = {
    "MUSTER_URL": "Address of the daemon. Default: that of the last `muster up`.",
    "MUSTER_API_TOKEN": "Token to send to it.",
    "MUSTER_HOME": "Folder for settings and data, instead of the user's.",
    "NO_COLOR": "Print no colours.",
}


def _commands(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *words, name)
        elif not command.hidden:
            yield " ".join((*words, name)), command


def _section(words: str, command: Any) -> list[str]:
    """Return a command: how it is called, what it does, its examples and options."""
    arguments = " ".join(each.metavar or each.name.upper() for each in _of_kind(command, "argument"))
    lines = [f".SS {_escaped(words)} {_escaped(arguments)}".rstrip()]
    for paragraph in command.help.split("\n\n"):
        lines += _paragraph(paragraph)
    for each in _of_kind(command, "option"):
        if each.hidden:
            continue
        names = ", ".join((*each.opts, *each.secondary_opts))
        value = "" if each.is_flag else f" {each.metavar or each.name.upper()}"
        lines += [".TP", f".B {_escaped(names + value)}", _escaped(_plain(each.help or ""))]
    return lines


def _paragraph(text: str) -> list[str]:
    """Return prose as prose, and examples as they are."""
    if text.lstrip().startswith("Examples:"):
        rest = text.strip().splitlines()[1:]
        return [".PP", ".nf", *(_escaped(line) for line in rest), ".fi"]
    return [".PP", _escaped(_plain(text))]


def _of_kind(command: Any, kind: str) -> list[Any]:
    return [each for each in command.params if each.param_type_name == kind]


def _first(text: str) -> str:
    return text.partition("\n")[0].strip()


def _plain(text: str) -> str:
    return _RUN_ON.sub(" ", text).strip()


def _escaped(text: str) -> str:
    """Return text that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
