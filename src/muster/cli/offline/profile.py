"""`muster profile`: the shipped models, or one in detail."""

from pathlib import Path

from muster.cli.render.table import table
from muster.cli.render.words import size
from muster.files.errors import InputError
from muster.files.profile.profile_file import (
    UnknownProfileError,
    named_profile,
    shipped_profile,
    shipped_profiles,
)
from muster.model.profile import ModelProfile

_LARGEST = 5
"""Tensors shown of a model."""
_STEPS = 10
"""Rows of the chart: a tenth of the backward pass each."""
_BAR = 50
"""Characters of a bar for all bytes."""


def shipped_table() -> str:
    heading = ("NAME", "PARAMETERS", "TENSORS", "GFLOP/SAMPLE", "ACTIVATIONS", "DATASET")
    return table(heading, [_row(shipped_profile(name)) for name in shipped_profiles()])


def described(named: str) -> str:
    """Describe a profile: its figures, largest tensors, and when gradients are ready."""
    try:
        profile = named_profile(named, Path())
    except UnknownProfileError as error:
        raise InputError.at("profile", str(error)) from None
    return "\n\n".join([_figures(profile), _largest(profile), _picture(profile)])


def _row(profile: ModelProfile) -> tuple[str, ...]:
    return (
        profile.name,
        f"{profile.parameters:,}",
        f"{len(profile.tensors)}",
        f"{profile.operations / 1e9:,.2f}",
        size(profile.activations),
        f"{profile.samples:,} x {size(profile.sample_bytes)}",
    )


def _figures(profile: ModelProfile) -> str:
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in profile.layers)
    lines = {
        "parameters": f"{profile.parameters:,} of {profile.parameter_bytes} B in "
        f"{len(profile.tensors)} tensors, plus {profile.state} B of optimiser state each",
        "gradients": f"{size(profile.gradients)} per step",
        "forward": f"{profile.operations / 1e9:,.2f} GFLOP/sample: {shares}",
        "activations": f"{size(profile.activations)}/sample",
        "dataset": f"{profile.samples:,} samples of {size(profile.sample_bytes)}",
        "batch": f"{profile.batch} samples per device",
    }
    return "\n".join([profile.name, *(f"  {key:<11}  {text}" for key, text in lines.items())])


def _largest(profile: ModelProfile) -> str:
    tensors = sorted(profile.tensors, key=lambda tensor: -tensor.bytes)[:_LARGEST]
    rows = [
        (each.name, size(each.bytes), f"{each.bytes / profile.gradients:.1%}", f"{each.ready:.1%}")
        for each in tensors
    ]
    return table(("LARGEST TENSOR", "BYTES", "OF ALL", "READY"), rows)


def _picture(profile: ModelProfile) -> str:
    """The share of the gradients' bytes that is ready after each tenth of the backward pass."""
    rows = []
    for step in range(1, _STEPS + 1):
        ready = sum(t.bytes for t in profile.tensors if t.ready <= step / _STEPS) / profile.gradients
        rows.append((f"{step / _STEPS:.0%}", f"{ready:.0%}", "#" * round(ready * _BAR)))
    lines = [f"{at:>8}  {part:>5}  {bar}".rstrip() for at, part, bar in rows]
    return "\n".join([f"{'BACKWARD':>8}  {'READY':>5}  OF THE GRADIENTS' BYTES", *lines])
