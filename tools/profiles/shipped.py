"""The profiles that are shipped: which models, and how each is usually trained."""

from collections.abc import Callable

from tools.profiles import convolutional, inception, sequence
from tools.profiles.tape import INDEX_BYTES, Map, Tape, Usual, profile_of

from muster.model.profile import ModelProfile

IMAGENET = 1_281_167
"""Training images of ImageNet-1k (Russakovsky et al. 2015, table 2)."""

PTB_TOKENS = 929_589
"""Training words of the Penn Treebank (as prepared by Mikolov et al. 2010), ends of sentences too."""

OPENWEBTEXT_TOKENS = 9_035_582_198
"""Training tokens of OpenWebText, the open copy of GPT-2's data (nanoGPT, data/openwebtext)."""

LLAMA_TOKENS = 1_000_000_000_000
"""Training tokens of LLaMA-7B (Touvron et al. 2023, table 2)."""

MOMENTUM = 4
"""Bytes of SGD's momentum in fp32."""
ADAM = 8
"""Bytes of Adam's two moments in fp32."""
ADAM_AND_COPY = 12
"""The same, and the fp32 copy of a bf16 parameter (Rajbhandari et al. 2020, section 3.1)."""


def _images(image: Map, batch: int) -> Usual:
    """Training on ImageNet in fp32 with momentum."""
    return Usual(IMAGENET, 4 * image.elements, batch, MOMENTUM)


def _text(tokens: int, length: int, batch: int, state: int) -> Usual:
    """Training on a text cut into sequences."""
    return Usual(tokens // length, INDEX_BYTES * length, batch, state)


_SMALL, _LARGE = convolutional.IMAGE, inception.IMAGE

SHIPPED: dict[str, tuple[Callable[[], Tape], Usual]] = {
    "alexnet": (convolutional.alexnet, _images(_SMALL, 256)),
    # 12 layers of 768 with 12 heads; 12 sequences a device as in nanoGPT.
    "gpt2-small": (
        lambda: sequence.gpt2(12, 768, 50_257, 1024, 12),
        _text(OPENWEBTEXT_TOKENS, 1024, 12, ADAM),
    ),
    "inception3": (inception.inception3, _images(_LARGE, 64)),
    "llama-7b": (
        lambda: sequence.llama(32, 4096, 11_008, 32_000, 2048, 32),
        _text(LLAMA_TOKENS, 2048, 1, ADAM_AND_COPY),
    ),
    # Width, sequence and batch of the large model of Zaremba et al. (2014), with six layers for two;
    # trained by plain SGD as there, which keeps nothing.
    "lstm6": (lambda: sequence.lstm(6, 10_000, 1500, 35), _text(PTB_TOKENS, 35, 20, 0)),
    "resnet50": (lambda: convolutional.resnet((3, 4, 6, 3)), _images(_SMALL, 64)),
    "resnet152": (lambda: convolutional.resnet((3, 8, 36, 3)), _images(_SMALL, 32)),
    "vgg16": (convolutional.vgg16, _images(_SMALL, 64)),
}


def profile(name: str) -> ModelProfile:
    """The profile of a shipped model, computed."""
    record, usual = SHIPPED[name]
    return profile_of(name, record(), usual)
