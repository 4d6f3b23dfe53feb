"""Models as trainings capture them (`runtime/shape/capture.py`), for the planner and the predictor."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from muster.model.profile import LayerType, ModelProfile, Tensor

MOST_TENSORS = 100_000
"""Parameters of a model that is believed: whatever tasks send, the daemon must not choke on it."""

IN_PARTS = "in_parts"
"""Marks the shape of a model that its workers hold in parts: they gather it block by block, which no
plan describes."""


def profile_of(shape: Mapping[str, Any], name: str, batch: int = 1) -> ModelProfile | None:
    """Return a captured model; None if it is held in parts or does not make sense.

    `batch`: usual samples of one device.
    """
    try:
        return None if shape.get(IN_PARTS) else _profile(shape, name, batch)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _profile(shape: Mapping[str, Any], name: str, batch: int) -> ModelProfile | None:
    parameters = [each for each in shape["parameters"] if float(each["ready"]) > 0]
    operations, activations = float(shape["operations"]), int(shape["activations"])
    if not 0 < len(parameters) <= MOST_TENSORS or not (isfinite(operations) and operations > 0):
        return None
    tensors = tuple(
        Tensor(str(each["name"]), int(each["bytes"]), min(1.0, float(each["ready"])))
        for each in sorted(parameters, key=lambda each: float(each["ready"]))
    )
    counts = sum(int(each["count"]) for each in parameters)
    size = sum(tensor.bytes for tensor in tensors)
    if counts <= 0 or size <= 0 or activations < 0:
        return None
    layers = tuple((LayerType(kind), float(share)) for kind, share in shape["kinds"])
    return ModelProfile(
        name=name,
        tensors=tensors,
        operations=operations,
        activations=activations,
        layers=layers or ((LayerType.OTHER, 1.0),),
        samples=int(shape["samples"]),
        sample_bytes=int(shape["sample_bytes"]),
        batch=max(1, batch),
        parameter_bytes=max(1, round(size / counts)),
        micro_batch=int(shape.get("micro_batch", 0)),
    )
