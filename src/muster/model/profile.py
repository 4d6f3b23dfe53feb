"""The shape of a model: what a training step computes, keeps and synchronises.

Sources: KAIST's offline inspection of every transfer of a synchronisation (seed 001), Dike's Context
(number and type of parameters and layers, seed 000). Captured from a real model, or written in YAML.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class LayerType(StrEnum):
    """What a layer computes; devices reach different shares of their rate on each."""

    CONVOLUTION = "convolution"
    POINTWISE = "pointwise"
    """A convolution of 1x1, or of one row or column: computed as a matrix product."""
    DENSE = "dense"
    RECURRENT = "recurrent"
    ATTENTION = "attention"
    EMBEDDING = "embedding"
    NORM = "norm"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One parameter: its gradient's bytes, and the fraction of the backward pass after which it is
    ready (0 < ready <= 1)."""

    name: str
    bytes: int
    ready: float


@dataclass(frozen=True)
class ModelProfile:
    """A model's shape. Tensors stand in the order in which their gradients become ready."""

    name: str
    tensors: tuple[Tensor, ...]
    operations: float
    """Floating-point operations of the forward pass for one sample; a multiply-add counts as two."""
    activations: int
    """Bytes kept for the backward pass, for one sample."""
    layers: tuple[tuple[LayerType, float], ...]
    """The share of the operations done in layers of each type."""
    samples: int
    """Samples of the dataset: one epoch."""
    sample_bytes: int
    """Bytes of one sample as it is handed to the device."""
    batch: int
    """Samples a device usually takes at once."""
    state: int = 4
    """Bytes the optimiser keeps for each parameter (SGD with momentum: 4; Adam: 8)."""
    parameter_bytes: int = 4
    """Bytes of one parameter (fp32: 4)."""

    def __hash__(self) -> int:
        """Cheap, as profiles are keys: models that differ in all else but these are rare."""
        return hash((self.name, len(self.tensors), self.operations))

    @cached_property
    def gradients(self) -> int:
        """Bytes of all gradients: what one synchronisation moves."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return self.gradients // self.parameter_bytes
