"""The command of a job: one line, or a list of words."""

import shlex

from muster.files.errors import shown

_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})


def parse_command(value: object, shell: bool = False) -> tuple[str, ...]:
    """Return the words of a command; shell syntax is refused unless a shell runs it."""
    if shell:
        return (_script(value),)
    words = tuple(value) if isinstance(value, list) else _split(value)
    if not words or not words[0]:
        raise ValueError("is empty; write for example python train.py")
    for word in words:
        if not isinstance(word, str):
            raise ValueError("must be a list of words, for example [python, train.py]")
        if "\0" in word:
            raise ValueError("contains a null character")
    return words


def _script(value: object) -> str:
    """Return the argument of `sh -c`."""
    if not isinstance(value, str):
        raise ValueError("must be text where shell is true, for example make && ./train")
    if not value.strip():
        raise ValueError("is empty; write for example make && ./train")
    if "\0" in value:
        raise ValueError("contains a null character")
    return value.strip()


def _split(value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError("must be a line or a list of words, for example python train.py")
    line = value.strip()
    if "\n" in line:
        raise ValueError("must be one line; for a script add shell: true")
    try:
        words = shlex.split(line)
    except ValueError as error:
        problem = str(error).lower()
        raise ValueError(
            f"cannot be split into words: {problem}; write for example python train.py"
        ) from None
    for word in words:
        if word in _SHELL_WORDS:
            raise ValueError(f"is not run by a shell but contains {shown(word)}; add shell: true")
    return tuple(words)
