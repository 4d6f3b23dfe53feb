"""The shape of a model: what a training step computes, keeps and synchronises.

Sources: KAIST's offline inspection of every transfer of a synchronisation (seed 001), Dike's Context
(number and type of parameters and layers, seed 000). Captured from a real model, or written in YAML.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class LayerType(StrEnum):
    """What a layer computes; devices reach a different share of their peak on each."""

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
    """A model's shape. Tensors are in the order in which their gradients become ready."""

    name: str
    tensors: tuple[Tensor, ...]
    operations: float
    """Floating-point operations of the forward pass per sample; a multiply-add counts as two."""
    activations: int
    """Bytes kept for the backward pass, per sample."""
    layers: tuple[tuple[LayerType, float], ...]
    """Share of the operations by layer type."""
    samples: int
    """Samples in one epoch."""
    sample_bytes: int
    """Bytes of one sample on its way to the device."""
    batch: int
    """Usual batch of one device."""
    state: int = 4
    """Optimiser bytes per parameter (SGD with momentum: 4; Adam: 8)."""
    parameter_bytes: int = 4
    """Bytes of one parameter (fp32: 4)."""
    micro_batch: int = 0
    """Most samples that a device computes at once; 0: all of its share."""

    def __hash__(self) -> int:
        """Cheap, as profiles are keys: different models that agree in these are rare."""
        return hash((self.name, len(self.tensors), self.operations))

    @cached_property
    def gradients(self) -> int:
        """Bytes that one synchronisation moves."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.gradients // self.parameter_bytes


@dataclass(frozen=True, slots=True)
class CapturedShape:
    """A training as it has shown itself, or as one of similar jobs has: its model and its batch."""

    profile: ModelProfile
    batch: int | None = None
    """Samples of a step over all workers, if it has said so."""
    measured: tuple[tuple[str, float], ...] = ()
    """s of a step on its current tasks, by the way they synchronised (`model.plan.Sync`)."""
