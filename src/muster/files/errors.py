"""Errors in files, one line each."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

Loc = tuple[str | int, ...]
"""A place in a file: keys and positions from the top, for example ("nodes", "gpu1", "rack")."""

LONGEST_FIELD = 120
LONGEST_PROBLEM = 400
_LONGEST_WORD = 40


class InputError(ValueError):
    """Invalid input; `str()` is one line, whatever the input contains."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))

    @classmethod
    def at(cls, path: str, problem: str, *, line: int | None = None, field: str = "") -> "InputError":
        """Return the error of a file: `path:line: field: problem`."""
        where = path if line is None else f"{path}:{line}"
        parts = (where, clipped(field, LONGEST_FIELD), clipped(problem, LONGEST_PROBLEM))
        return cls(": ".join(part for part in parts if part))


class FieldError(ValueError):
    """A problem at a place of the data; the loader adds the file and the line."""

    def __init__(self, loc: Loc, problem: str) -> None:
        super().__init__(problem)
        self.loc = loc
        self.problem = problem

    def below(self, *outer: str | int) -> "FieldError":
        """Return the error with outer keys in front."""
        return FieldError((*outer, *self.loc), self.problem)


def dotted(loc: Loc) -> str:
    """Format a place: `nodes.gpu1.rack`, `any_of[1]`."""
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def shown(text: str) -> str:
    """Quote a word of the file, clipped when long."""
    return f"'{clipped(text, _LONGEST_WORD)}'"


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the most similar valid word, if any."""
    by_fold: dict[str, str] = {}
    for choice in valid:
        by_fold.setdefault(choice.casefold(), choice)
    # Cut first: the comparison takes quadratic time, and no valid word is longer.
    typed = word[:_LONGEST_WORD].casefold()
    begun = [choice for choice in by_fold if choice.startswith(typed)] if typed else []
    # Who types the beginning of one word means that one, though a shorter word may be more similar.
    found = begun if len(begun) == 1 else get_close_matches(typed, by_fold, n=1)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` if a valid word is similar, else nothing."""
    near = nearest(word, valid)
    return f" (did you mean '{near}'?)" if near is not None else ""


def one_of(word: str, kind: str, valid: Iterable[str]) -> str:
    """Return the message for an invalid word: with the most similar valid one, or all of them."""
    words = list(valid)
    hint = did_you_mean(word, words)
    if hint:
        return f"{shown(word)} is not a {kind}{hint}"
    return f"{shown(word)} is not a {kind}; choose from: {', '.join(words) or 'none'}"


def repeated(names: Sequence[str]) -> int | None:
    """Return the position of the first name that is there twice."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        if name in seen:
            return position
        seen.add(name)
    return None


def clipped(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def printable(text: str) -> str:
    """Return the text on one line, unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
