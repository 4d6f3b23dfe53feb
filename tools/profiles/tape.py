"""A network as the list of its layers in forward order, and the profile that follows from it.

Counted are the operations of matrix products and convolutions, two for a multiply-add, as the papers
and PyTorch's FlopCounterMode count them; norms and activations are below 1 % of that and count as none.
The backward pass of a layer takes twice its forward operations: once for the gradient of its weights,
once for that of its input, which the first layer does without. Time spent on memory alone (norms,
activations) depends on the device and is left out: a profile captured on one knows better.

Gradients become ready in the reverse of the forward order, branches included: autograd runs what was
recorded last first. Kept for the backward pass is what PyTorch keeps, with in-place activations.
"""

from dataclasses import dataclass, field
from itertools import accumulate

from muster.model.profile import LayerType, ModelProfile, Tensor

Weights = tuple[tuple[str, int], ...]
"""Names and numbers of parameters, in the order in which PyTorch has their gradients ready."""

DECIMALS = 6
"""Of `ready`: a millionth of a backward pass is below a microsecond."""

INDEX_BYTES = 8
"""Of an index that max pooling keeps for each output, and of a token."""


@dataclass(frozen=True, slots=True)
class Map:
    """What flows between the layers of a convolutional network: the shape of one sample."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Numbers in it."""
        return self.channels * self.height * self.width


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its weights, its forward operations, and the bytes kept for the backward pass."""

    kind: LayerType
    weights: Weights = ()
    operations: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Usual:
    """How a model is usually trained: the dataset, bytes of a sample on the device, samples a device
    takes at once, bytes of optimiser state for each parameter."""

    samples: int
    sample_bytes: int
    batch: int
    state: int


@dataclass(slots=True)
class Tape:
    """Records layers in forward order. `width`: bytes of one number (fp32: 4)."""

    width: int = 4
    layers: list[Layer] = field(default_factory=list)

    def add(self, kind: LayerType, weights: Weights = (), operations: int = 0, kept: int = 0) -> None:
        """Add one layer that keeps this many numbers."""
        self.layers.append(Layer(kind, weights, operations, kept * self.width))

    def keep(self, elements: int) -> None:
        """Numbers kept by a layer without weights: of an activation, a sum, a product."""
        self.add(LayerType.OTHER, kept=elements)

    def conv(
        self,
        name: str,
        x: Map,
        channels: int,
        kernel: tuple[int, int],
        *,
        stride: int = 1,
        pad: tuple[int, int] = (0, 0),
        bias: bool = False,
    ) -> Map:
        """A convolution; its output is kept, by the norm or the in-place activation after it."""
        out = Map(
            channels,
            (x.height + 2 * pad[0] - kernel[0]) // stride + 1,
            (x.width + 2 * pad[1] - kernel[1]) // stride + 1,
        )
        products = x.channels * kernel[0] * kernel[1]
        weights: Weights = ((f"{name}.weight", channels * products),)
        if bias:
            weights += ((f"{name}.bias", channels),)
        kind = LayerType.CONVOLUTION if min(kernel) > 1 else LayerType.POINTWISE
        self.add(kind, weights, 2 * products * out.elements, out.elements)
        return out

    def norm(self, name: str, features: int, *, bias: bool = True, kept: int = 0) -> None:
        """A norm; its output is kept by an in-place activation or a matrix product after it."""
        weights: Weights = ((f"{name}.weight", features),)
        if bias:
            weights += ((f"{name}.bias", features),)
        self.add(LayerType.NORM, weights, kept=kept)

    def pool(self, x: Map, kernel: int, stride: int, pad: int = 0) -> Map:
        """Max pooling: its output is kept by the next layer, and where each number came from."""
        height = (x.height + 2 * pad - kernel) // stride + 1
        width = (x.width + 2 * pad - kernel) // stride + 1
        out = Map(x.channels, height, width)
        kept = out.elements * (self.width + INDEX_BYTES)
        self.layers.append(Layer(LayerType.OTHER, kept=kept))
        return out

    def dense(
        self, name: str, inputs: int, outputs: int, *, rows: int = 1, bias: bool = True, kept: int = 0
    ) -> None:
        """A matrix product for each of the sample's rows."""
        weights: Weights = ((f"{name}.weight", inputs * outputs),)
        if bias:
            weights = ((f"{name}.bias", outputs), *weights)
        self.add(LayerType.DENSE, weights, 2 * rows * inputs * outputs, kept)


def profile_of(name: str, tape: Tape, usual: Usual) -> ModelProfile:
    """The profile of a recorded network; `activations` holds the sample itself too."""
    total = sum(layer.operations for layer in tape.layers)
    return ModelProfile(
        name=name,
        tensors=_tensors(tape),
        operations=float(total),
        activations=usual.sample_bytes + sum(layer.kept for layer in tape.layers),
        layers=_shares(tape.layers, total),
        samples=usual.samples,
        sample_bytes=usual.sample_bytes,
        batch=usual.batch,
        state=usual.state,
        parameter_bytes=tape.width,
    )


def _tensors(tape: Tape) -> tuple[Tensor, ...]:
    """Every weight with the part of the backward pass after which its gradient is ready."""
    backwards = tape.layers[::-1]
    done = list(accumulate(_backward_operations(tape.layers)[::-1]))
    return tuple(
        Tensor(name, parameters * tape.width, max(round(at / done[-1], DECIMALS), 10**-DECIMALS))
        for layer, at in zip(backwards, done, strict=True)
        for name, parameters in layer.weights
    )


def _backward_operations(layers: list[Layer]) -> list[int]:
    """Operations of each layer's backward pass; an image needs no gradient, an embedding does."""
    first, *rest = layers
    return [first.operations, *(2 * layer.operations for layer in rest)]


def _shares(layers: list[Layer], total: int) -> tuple[tuple[LayerType, float], ...]:
    """The share of the operations in layers of each type, for the types that have any."""
    operations = {kind: sum(x.operations for x in layers if x.kind is kind) for kind in LayerType}
    return tuple((kind, count / total) for kind, count in operations.items() if count)
