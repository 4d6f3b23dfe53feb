"""Saved jobs: files in the project's `.muster/templates`, or in the user's config folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from muster.client.connecting.settings import settings_path
from muster.files.errors import InputError, did_you_mean
from muster.files.source.quantity import parse_name

SUFFIX = ".yaml"
_PROJECT = Path(".muster/templates")


def template_path(name: str) -> Path:
    """Return the file of a template: the project's before the user's; InputError if there is none."""
    known = templates()
    if name not in known:
        near = did_you_mean(name, known) or f"; templates: {', '.join(known) or 'none yet'}"
        raise InputError.at("--template", f"no template {name!r}{near} (muster template save JOB NAME)")
    return known[name]


def templates() -> dict[str, Path]:
    """Return the files of all templates by name; of two with one name the project's."""
    found: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def new_template(name: str, *, project: bool) -> Path:
    """Return where to save a template; InputError if the name is not one."""
    try:
        parse_name(name)
    except ValueError as error:
        raise InputError.at("NAME", str(error)) from None
    folder = (_project() or Path.cwd() / _PROJECT) if project else _own()
    return folder / f"{name}{SUFFIX}"


def _folders() -> Iterator[Path]:
    project = _project()
    if project is not None:
        yield project
    yield _own()


def _project() -> Path | None:
    """Return the templates of the project that this folder is in."""
    here = Path.cwd()
    return next((each / _PROJECT for each in (here, *here.parents) if (each / _PROJECT).is_dir()), None)


def _own() -> Path:
    return settings_path(os.environ).parent / "templates"
