"""Profile files: the shape of a model. See docs/reference/profiles.md."""

import json
import re
from functools import cache
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path
from typing import Any

from muster.files.errors import FieldError, did_you_mean, repeated, shown
from muster.files.profile.profile_entries import ProfileEntry
from muster.files.source.quantity import default_name
from muster.files.source.validation import schema_of, validated
from muster.files.source.yaml_source import Source, read_source
from muster.model.profile import LayerType, ModelProfile, Tensor

SHARES_OFF_BY = 0.01
"""Shares with two digits need not add up to 1 exactly."""

_SHIPPED = files("muster.files") / "profiles"
_SUFFIX = ".yaml"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


class UnknownProfileError(ValueError):
    """No shipped profile or file of this name."""


def load_profile(path: Path) -> ModelProfile:
    """Return the profile of a file; InputError is one line."""
    return profile_in(read_source(path))


def profile_in(source: Source) -> ModelProfile:
    entry = validated(ProfileEntry, source)
    try:
        return _profile(entry, Path(source.path))
    except FieldError as error:
        raise source.error(error.loc, error.problem) from None


def profile_of_data(data: dict[str, Any]) -> ModelProfile:
    """Return the profile embedded in a job; raises ValidationError or FieldError."""
    return _profile(ProfileEntry.model_validate(data), Path("profile"))


@cache
def shipped_profiles() -> tuple[str, ...]:
    names = (each.name for each in _SHIPPED.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


@cache
def shipped_profile(name: str) -> ModelProfile:
    """Return a shipped profile; UnknownProfileError lists the names."""
    if name not in shipped_profiles():
        known = ", ".join(shipped_profiles())
        near = did_you_mean(name, shipped_profiles())
        ways = f"choose from: {known}; or give a path, for example ./mine.yaml"
        raise UnknownProfileError(f"{shown(name)} is not a model{near}; {ways}")
    with as_file(_SHIPPED / f"{name}{_SUFFIX}") as path:
        return load_profile(path)


def is_path(text: str) -> bool:
    """Return whether a model is given as a path, not a shipped name."""
    return "/" in text or text.endswith((_SUFFIX, ".yml"))


def named_profile(text: str, folder: Path) -> ModelProfile:
    """Return the profile of a shipped name, or of a path relative to a folder."""
    if not is_path(text):
        return shipped_profile(text)
    return profile_in(read_profile(text, folder))


def read_profile(text: str, folder: Path) -> Source:
    if not _is_there(folder / text):
        raise UnknownProfileError(f"no such file: {shown(text)}")
    return read_source(folder / text)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, a folder that may not be read
        return False


def profile_schema() -> dict[str, Any]:
    return schema_of(ProfileEntry, "Muster profile file")


def profile_text(profile: ModelProfile) -> str:
    """Format a profile as a file; `load_profile` reads it back the same, to 9 decimals."""
    shares = ", ".join(f"{kind}: {_decimal(share)}" for kind, share in profile.layers)
    fields = {
        "name": profile.name,
        "operations": _operations(profile.operations),
        "activations": f"{profile.activations}B",
        "layers": f"{{{shares}}}",
        "samples": profile.samples,
        "sample_bytes": f"{profile.sample_bytes}B",
        "batch": profile.batch,
        "state": profile.state,
        "parameter_bytes": profile.parameter_bytes,
        **({"micro_batch": profile.micro_batch} if profile.micro_batch else {}),
    }
    lines = [f"{key}: {value}" for key, value in fields.items()]
    tensors = [f"  - [{_plain(t.name)}, {t.bytes}B, {_decimal(t.ready)}]" for t in profile.tensors]
    return "\n".join([*lines, "tensors:  # name, bytes of its gradient, ready", *tensors]) + "\n"


def _plain(name: str) -> str:
    """Return a name as YAML takes it between brackets, quoted where necessary."""
    return name if _PLAIN.fullmatch(name) and name.lower() != "null" else json.dumps(name)


def _operations(count: float) -> str:
    """Format a count in the largest unit that keeps it above 1."""
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= factor:
            return f"{_decimal(count / factor)}{unit}"
    return _decimal(count)


def _decimal(number: float) -> str:
    """Format with at most nine decimals, the most a file may have, without trailing zeros."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _profile(entry: ProfileEntry, path: Path) -> ModelProfile:
    _check_shares(entry.layers)
    _check_tensors(entry.tensors)
    return ModelProfile(
        name=entry.name or default_name(path.stem, "the file's name"),
        tensors=tuple(entry.tensors),
        operations=entry.operations,
        activations=entry.activations,
        layers=tuple((LayerType(kind), share) for kind, share in entry.layers.items()),
        samples=entry.samples,
        sample_bytes=entry.sample_bytes,
        batch=entry.batch,
        state=entry.state,
        parameter_bytes=entry.parameter_bytes,
        micro_batch=entry.micro_batch,
    )


def _check_shares(layers: dict[str, float]) -> None:
    total = sum(layers.values())
    if abs(total - 1) > SHARES_OFF_BY:
        raise FieldError(("layers",), f"the shares add up to {total:.3g}, not 1")


def _check_tensors(tensors: list[Tensor]) -> None:
    if not tensors:
        raise FieldError(("tensors",), "must name at least one tensor")
    again = repeated([tensor.name for tensor in tensors])
    if again is not None:
        raise FieldError(("tensors", again), f"{shown(tensors[again].name)} is given twice")
    for position, (before, after) in enumerate(pairwise(tensors), start=1):
        if after.ready < before.ready:
            problem = f"is ready at {after.ready:g}, before {shown(before.name)} at {before.ready:g}"
            raise FieldError(("tensors", position), f"{problem}; list them in the order they are ready")
