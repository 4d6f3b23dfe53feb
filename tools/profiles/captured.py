"""The shape of a training as a worker captured it, made a profile that perf/ and planner/ work from."""

from typing import Any

from muster.model.profile import LayerType, ModelProfile, Tensor


def profile_of(shape: dict[str, Any], name: str, batch: int, *, state: int = 4) -> ModelProfile:
    """The profile of a `Captured` message's shape; `batch`: samples a device usually takes at once.

    `state`: bytes the optimiser keeps for each parameter (SGD with momentum: 4; Adam: 8).
    """
    trained = [each for each in shape["parameters"] if each["ready"] > 0]
    numbers = sum(each["count"] for each in trained)
    size = sum(each["bytes"] for each in trained)
    kinds = tuple((LayerType(kind), float(share)) for kind, share in shape["kinds"])
    return ModelProfile(
        name=name,
        tensors=tuple(Tensor(each["name"], each["bytes"], each["ready"]) for each in trained),
        # An embedding alone has no products to count: its time is all in the bytes it keeps.
        operations=max(1.0, float(shape["operations"])),
        # Nothing is known of the layers in between where the model could not be run.
        activations=max(shape["activations"], shape["sample_bytes"], 1),
        layers=kinds or ((LayerType.OTHER, 1.0),),
        samples=shape["samples"],
        sample_bytes=shape["sample_bytes"],
        batch=batch,
        state=state,
        parameter_bytes=max(1, round(size / numbers)) if numbers else 4,
        micro_batch=shape.get("micro_batch", 0),
    )
