"""The profile file as written: its mappings, fields and defaults."""

from typing import Annotated

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from muster.files.errors import shown
from muster.files.source.fields import (
    FileEntry,
    Name,
    Operations,
    Part,
    SomeSize,
    optional,
    single,
    whole,
    whole_schema,
    word,
)
from muster.files.source.quantity import parse_part, parse_size, parse_tensor_name
from muster.model.profile import LayerType, Tensor

MAX_SAMPLES = 10**15
"""More than the largest datasets have tokens."""

MAX_BATCH = 1_000_000
"""Samples on one device: more than any memory holds."""

MAX_STATE = 64
"""Bytes for one parameter; Adam with an fp32 copy keeps 12."""

LAYER_TYPES = [kind.value for kind in LayerType]

_TENSOR = "[fc.weight, 8192000B, 0.004]"
_TENSOR_SCHEMA = {
    "type": "array",
    "prefixItems": [
        {"type": "string", "pattern": "^[!-~]{1,200}$"},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? *([KMGTP]i?|k)?B$"},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    ],
    "minItems": 3,
    "maxItems": 3,
}


def _tensor(value: object) -> Tensor:
    """Read a tensor: its name, the bytes of its gradient, when that is ready."""
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"must be name, bytes and ready, for example {_TENSOR}")
    name, size, ready = (single(each) for each in value)
    found = Tensor(parse_tensor_name(name), parse_size(size), parse_part(ready))
    if not found.bytes:
        raise ValueError(f"bytes must be above 0, not {shown(size)}")
    return found


TensorField = Annotated[Tensor, PlainValidator(_tensor), WithJsonSchema(_TENSOR_SCHEMA)]
LayerWord = Annotated[str, word("layer type", LAYER_TYPES), WithJsonSchema({"enum": LAYER_TYPES})]
Samples = Annotated[int, whole(1, MAX_SAMPLES), whole_schema(1, MAX_SAMPLES)]
DeviceBatch = Annotated[int, whole(1, MAX_BATCH), whole_schema(1, MAX_BATCH)]
State = Annotated[int, whole(0, MAX_STATE), whole_schema(0, MAX_STATE)]
ParameterBytes = Annotated[int, whole(1, 8), whole_schema(1, 8)]


class ProfileEntry(FileEntry):
    """The shape of a model: what a training step computes, keeps and synchronises."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "operations": "2K",
                    "activations": "4KB",
                    "layers": {"dense": 1},
                    "samples": 60000,
                    "sample_bytes": "400B",
                    "batch": 64,
                    "tensors": [["fc.bias", "40B", 1], ["fc.weight", "4000B", 1]],
                }
            ]
        }
    )

    name: Name | None = optional("The model's name. Default: the file's.")
    operations: Operations = Field(
        description="Floating-point operations of the forward pass for one sample, two for a "
        "multiply-add: a number, or with K, M, G, T or P for thousands, millions, and so on.",
        examples=["8.2G"],
    )
    activations: SomeSize = Field(
        description="Bytes kept for the backward pass, for one sample.", examples=["82MiB"]
    )
    layers: dict[LayerWord, Part] = Field(
        description="The share of the operations done in layers of each type; they add up to 1.",
        examples=[{"convolution": 0.99, "dense": 0.01}],
        json_schema_extra={"propertyNames": {"enum": list(LAYER_TYPES)}},
    )
    samples: Samples = Field(description="Samples of the dataset: one epoch.", examples=[1281167])
    sample_bytes: SomeSize = Field(
        description="Bytes of one sample as the device gets it.", examples=["602112B"]
    )
    batch: DeviceBatch = Field(description="Samples a device usually takes at once.", examples=[64])
    state: State = Field(
        default=4,
        description="Bytes the optimiser keeps for each parameter: 4 with momentum, 8 for Adam.",
    )
    parameter_bytes: ParameterBytes = Field(
        default=4, description="Bytes of one parameter and of its gradient: 4 for fp32, 2 for bf16."
    )
    micro_batch: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Most samples that a device computes at once; 0: all of its share."
    )
    tensors: list[TensorField] = Field(
        description="Every parameter as [name, bytes of its gradient, ready], in the order of "
        "readiness; `ready` is the part of the backward pass after which the gradient is.",
        examples=[[["fc.bias", "4000B", 0.001], ["fc.weight", "8192000B", 0.001]]],
    )
