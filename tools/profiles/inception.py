"""Inception-v3 (Szegedy et al. 2015), shapes and names of torchvision, without the auxiliary head."""

from dataclasses import replace

from tools.profiles.convolutional import CLASSES
from tools.profiles.tape import Map, Tape

IMAGE = Map(3, 299, 299)

_Kernel = tuple[int, int]


def inception3() -> Tape:
    """The stem, then blocks A to E, each a few branches side by side."""
    tape = Tape()
    x = _stem(tape)
    for name, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        x = _block_a(tape, name, x, pooled)
    x = _block_b(tape, "Mixed_6a", x)
    for name, narrow in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        x = _block_c(tape, name, x, narrow)
    x = _block_d(tape, "Mixed_7a", x)
    for name in ("Mixed_7b", "Mixed_7c"):
        x = _block_e(tape, name, x)
    tape.keep(2 * x.channels)  # the average of each channel, and its dropout
    tape.dense("fc", x.channels, CLASSES)
    return tape


def _unit(
    tape: Tape, name: str, x: Map, channels: int, kernel: _Kernel, *, stride: int = 1, pad: bool = True
) -> Map:
    """A convolution, its norm and its activation; padded so that the shape stays."""
    around = (kernel[0] // 2, kernel[1] // 2) if pad else (0, 0)
    out = tape.conv(f"{name}.conv", x, channels, kernel, stride=stride, pad=around)
    tape.norm(f"{name}.bn", channels, kept=out.elements)
    return out


def _joined(tape: Tape, x: Map, *channels: int) -> Map:
    """Branches put side by side: a copy, kept by the convolutions that read it."""
    out = replace(x, channels=sum(channels))
    tape.keep(out.elements)
    return out


def _stem(tape: Tape) -> Map:
    x = _unit(tape, "Conv2d_1a_3x3", IMAGE, 32, (3, 3), stride=2, pad=False)
    x = _unit(tape, "Conv2d_2a_3x3", x, 32, (3, 3), pad=False)
    x = _unit(tape, "Conv2d_2b_3x3", x, 64, (3, 3))
    x = tape.pool(x, 3, 2)
    x = _unit(tape, "Conv2d_3b_1x1", x, 80, (1, 1))
    x = _unit(tape, "Conv2d_4a_3x3", x, 192, (3, 3), pad=False)
    return tape.pool(x, 3, 2)


def _averaged(tape: Tape, name: str, x: Map, channels: int) -> None:
    """The branch that averages over 3x3 first; the average is kept by its convolution."""
    tape.keep(x.elements)
    _unit(tape, f"{name}.branch_pool", x, channels, (1, 1))


def _block_a(tape: Tape, name: str, x: Map, pooled: int) -> Map:
    _unit(tape, f"{name}.branch1x1", x, 64, (1, 1))
    y = _unit(tape, f"{name}.branch5x5_1", x, 48, (1, 1))
    _unit(tape, f"{name}.branch5x5_2", y, 64, (5, 5))
    y = _unit(tape, f"{name}.branch3x3dbl_1", x, 64, (1, 1))
    y = _unit(tape, f"{name}.branch3x3dbl_2", y, 96, (3, 3))
    _unit(tape, f"{name}.branch3x3dbl_3", y, 96, (3, 3))
    _averaged(tape, name, x, pooled)
    return _joined(tape, x, 64, 64, 96, pooled)


def _block_b(tape: Tape, name: str, x: Map) -> Map:
    half = _unit(tape, f"{name}.branch3x3", x, 384, (3, 3), stride=2, pad=False)
    y = _unit(tape, f"{name}.branch3x3dbl_1", x, 64, (1, 1))
    y = _unit(tape, f"{name}.branch3x3dbl_2", y, 96, (3, 3))
    _unit(tape, f"{name}.branch3x3dbl_3", y, 96, (3, 3), stride=2, pad=False)
    tape.pool(x, 3, 2)
    return _joined(tape, half, 384, 96, x.channels)


def _block_c(tape: Tape, name: str, x: Map, narrow: int) -> Map:
    _unit(tape, f"{name}.branch1x1", x, 192, (1, 1))
    y = _unit(tape, f"{name}.branch7x7_1", x, narrow, (1, 1))
    y = _unit(tape, f"{name}.branch7x7_2", y, narrow, (1, 7))
    _unit(tape, f"{name}.branch7x7_3", y, 192, (7, 1))
    y = _unit(tape, f"{name}.branch7x7dbl_1", x, narrow, (1, 1))
    y = _unit(tape, f"{name}.branch7x7dbl_2", y, narrow, (7, 1))
    y = _unit(tape, f"{name}.branch7x7dbl_3", y, narrow, (1, 7))
    y = _unit(tape, f"{name}.branch7x7dbl_4", y, narrow, (7, 1))
    _unit(tape, f"{name}.branch7x7dbl_5", y, 192, (1, 7))
    _averaged(tape, name, x, 192)
    return _joined(tape, x, 192, 192, 192, 192)


def _block_d(tape: Tape, name: str, x: Map) -> Map:
    y = _unit(tape, f"{name}.branch3x3_1", x, 192, (1, 1))
    half = _unit(tape, f"{name}.branch3x3_2", y, 320, (3, 3), stride=2, pad=False)
    y = _unit(tape, f"{name}.branch7x7x3_1", x, 192, (1, 1))
    y = _unit(tape, f"{name}.branch7x7x3_2", y, 192, (1, 7))
    y = _unit(tape, f"{name}.branch7x7x3_3", y, 192, (7, 1))
    _unit(tape, f"{name}.branch7x7x3_4", y, 192, (3, 3), stride=2, pad=False)
    tape.pool(x, 3, 2)
    return _joined(tape, half, 320, 192, x.channels)


def _block_e(tape: Tape, name: str, x: Map) -> Map:
    _unit(tape, f"{name}.branch1x1", x, 320, (1, 1))
    y = _unit(tape, f"{name}.branch3x3_1", x, 384, (1, 1))
    _unit(tape, f"{name}.branch3x3_2a", y, 384, (1, 3))
    _unit(tape, f"{name}.branch3x3_2b", y, 384, (3, 1))
    y = _unit(tape, f"{name}.branch3x3dbl_1", x, 448, (1, 1))
    y = _unit(tape, f"{name}.branch3x3dbl_2", y, 384, (3, 3))
    _unit(tape, f"{name}.branch3x3dbl_3a", y, 384, (1, 3))
    _unit(tape, f"{name}.branch3x3dbl_3b", y, 384, (3, 1))
    _averaged(tape, name, x, 192)
    return _joined(tape, x, 320, 768, 768, 192)
