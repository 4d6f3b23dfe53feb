"""The `#SBATCH` lines of a script, and options of `sbatch`: which there are, and what they say."""

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHORT = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "d": "dependency",
    "D": "chdir",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "o": "output",
    "O": "overcommit",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
    "w": "nodelist",
    "W": "wait",
    "x": "exclude",
    "Q": "quiet",
}
"""Options by letter."""
_FLAGS = """
contiguous exclusive hold ignore-pbs kill-on-invalid-dep no-kill no-requeue overcommit oversubscribe
parsable quiet reboot requeue spread-job test-only use-min-nodes wait verbose
"""
FLAGS = frozenset(_FLAGS.split())
"""Options without a value; `--exclusive=user` has one all the same."""
_VALUED = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint
container core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
dependency distribution error exclude export export-file extra-node-info get-user-env gid gpu-bind
gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name
licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice
nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
open-mode output partition power prefer priority profile propagate qos reservation signal
sockets-per-node switches thread-spec threads-per-core time time-min tmp tres-per-task uid wckey wrap
"""
VALUED = frozenset(_VALUED.split())
KNOWN = FLAGS | VALUED
ALIASES = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "share": "oversubscribe"}
"""Other names that `sbatch` takes, too."""
_MARK = "#SBATCH"


@dataclass(frozen=True, slots=True)
class Directive:
    """One option: its long name, its value (empty: none), and where it is written."""

    option: str
    value: str
    line: int
    """Of the script; 0: on the command line."""

    def __str__(self) -> str:
        return f"--{self.option}={self.value}" if self.value else f"--{self.option}"


class BadDirectiveError(ValueError):
    """An option that Slurm does not have, or that is written badly."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


def script_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the `#SBATCH` lines and their numbers: as in Slurm, those before the first command."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_MARK):
            yield number, line[len(_MARK) :]
        elif line.strip() and not line.startswith("#"):
            return


def has_directives(text: str) -> bool:
    """Return whether a text is a batch script of Slurm's."""
    return text.startswith("#!") and next(script_lines(text), None) is not None


def directives_of(text: str) -> tuple[list[Directive], list[BadDirectiveError]]:
    """Return what a script asks for, and the lines that say nothing."""
    found: list[Directive] = []
    bad: list[BadDirectiveError] = []
    for number, line in script_lines(text):
        try:
            found += _directives_in(line, number)
        except BadDirectiveError as error:
            bad.append(error)
    return found, bad


def _directives_in(line: str, number: int) -> list[Directive]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise BadDirectiveError(number, f"cannot be split into words: {error}") from None
    given, rest = parse_words(words, number)
    if rest:
        raise BadDirectiveError(number, f"{rest[0]!r} is no option; options begin with - or --")
    return given


def parse_words(words: Sequence[str], line: int = 0) -> tuple[list[Directive], list[str]]:
    """Split words into the options they begin with, and the rest."""
    found: list[Directive] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        word = left.pop(0)
        name, value, has_value = _named(word, line)
        if not has_value and name in VALUED:
            if not left:
                raise BadDirectiveError(line, f"{word} has no value")
            value = left.pop(0)
        found.append(Directive(name, value, line))
    if left and left[0] == "--":
        left.pop(0)
    return found, left


def _named(word: str, line: int) -> tuple[str, str, bool]:
    """Return the long name of an option, and the value in the same word."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return _known(name, word, line), value, bool(equals)
    letter, value = word[1], word[2:].removeprefix("=")
    if letter not in SHORT:
        raise BadDirectiveError(line, f"-{letter} is no option of sbatch")
    return SHORT[letter], value, bool(value)


def _known(name: str, word: str, line: int) -> str:
    """Return the option's name; as with any program that uses getopt, a unique beginning will do."""
    name = ALIASES.get(name, name)
    if name in KNOWN:
        return name
    begun = [each for each in KNOWN if each.startswith(name)]
    if len(begun) == 1 and re.fullmatch(r"[a-z-]{2,}", name):
        return begun[0]
    near = difflib.get_close_matches(name, KNOWN, 1, cutoff=0.7)
    hint = f" (did you mean --{near[0]}?)" if near else ""
    raise BadDirectiveError(line, f"{word.partition('=')[0]} is no option of sbatch{hint}")
