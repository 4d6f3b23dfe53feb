"""Which files of a folder are not shipped: `.gitignore` and `.musterignore`, as git reads them."""

from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

FILES = (".gitignore", ".musterignore")
"""Later ones override: `!data/` in `.musterignore` ships what git leaves out."""
NEVER = frozenset({".git", ".hg", ".svn"})


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in a folder: its own, and those of the folders above."""

    specs: tuple[tuple[Path, GitIgnoreSpec], ...] = ()
    """By the folder that has them, the outermost first."""

    def below(self, folder: Path) -> "IgnoreRules":
        """Return the rules with those that a folder adds."""
        lines = [line for name in FILES for line in _lines(folder / name)]
        if not lines:
            return self
        return IgnoreRules((*self.specs, (folder, GitIgnoreSpec.from_lines(lines))))

    def ignored(self, path: Path, *, folder: bool) -> bool:
        """Whether an entry is left out; the innermost rule that speaks of it decides."""
        if path.name in NEVER:
            return True
        for base, spec in reversed(self.specs):
            name = path.relative_to(base).as_posix() + ("/" if folder else "")
            said = spec.check_file(name).include
            if said is not None:
                return said
        return False


def rules_above(folder: Path) -> IgnoreRules:
    """Return the rules of the repository that a folder is in, from above it."""
    above = []
    for each in (folder, *folder.parents):
        if each != folder:
            above.append(each)
        if (each / ".git").exists():
            break
    else:
        return IgnoreRules()
    rules = IgnoreRules()
    for each in reversed(above):
        rules = rules.below(each)
    return rules


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
