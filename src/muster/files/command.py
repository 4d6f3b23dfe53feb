"""The command of a job: one line, or a list of words."""

import shlex

from muster.files.errors import shown

_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})


def parse_command(value: object) -> tuple[str, ...]:
    """The words of a command. No shell runs it, so what only a shell understands is refused."""
    words = tuple(value) if isinstance(value, list) else _split(value)
    if not words or not words[0]:
        raise ValueError("is empty; write for example python train.py")
    for word in words:
        if not isinstance(word, str):
            raise ValueError("must be a list of words, for example [python, train.py]")
        if "\0" in word:
            raise ValueError("has a null character in it")
    return words


def _split(value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError("must be a line or a list of words, for example python train.py")
    line = value.strip()
    if "\n" in line:
        raise ValueError("has several lines; write one, or [sh, script.sh]")
    try:
        words = shlex.split(line)
    except ValueError as error:
        problem = str(error).lower()
        raise ValueError(
            f"cannot be split into words: {problem}; write for example python train.py"
        ) from None
    for word in words:
        if word in _SHELL_WORDS:
            raise ValueError(f"is not run by a shell, but has {shown(word)}; write [sh, -c, '...']")
    return tuple(words)
