"""ResNet, VGG and AlexNet, with the shapes and names of torchvision."""

from tools.profiles.tape import Map, Tape

IMAGE = Map(3, 224, 224)
CLASSES = 1000

_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of each stage (Simonyan and Zisserman 2014, configuration D)."""


def resnet(blocks: tuple[int, int, int, int]) -> Tape:
    """ResNet with bottlenecks (He et al. 2015, table 1; the stride in the 3x3 convolution)."""
    tape = Tape()
    x = tape.conv("conv1", IMAGE, 64, (7, 7), stride=2, pad=(3, 3))
    tape.norm("bn1", 64, kept=x.elements)
    x = tape.pool(x, 3, 2, 1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            x = _bottleneck(tape, f"layer{stage + 1}.{block}", x, 64 << stage, stride)
    tape.keep(x.channels)  # the average of each channel
    tape.dense("fc", x.channels, CLASSES)
    return tape


def _bottleneck(tape: Tape, name: str, x: Map, channels: int, stride: int) -> Map:
    out = tape.conv(f"{name}.conv1", x, channels, (1, 1))
    tape.norm(f"{name}.bn1", channels, kept=out.elements)
    out = tape.conv(f"{name}.conv2", out, channels, (3, 3), stride=stride, pad=(1, 1))
    tape.norm(f"{name}.bn2", channels, kept=out.elements)
    out = tape.conv(f"{name}.conv3", out, 4 * channels, (1, 1))
    tape.norm(f"{name}.bn3", 4 * channels)
    if x.channels != out.channels:
        tape.conv(f"{name}.downsample.0", x, 4 * channels, (1, 1), stride=stride)
        tape.norm(f"{name}.downsample.1", 4 * channels)
    tape.keep(out.elements)  # the sum of both ways, after its activation
    return out


def vgg16() -> Tape:
    """VGG with 16 layers of weights; places in `features` count convolutions, activations and pools."""
    tape, x, place = Tape(), IMAGE, 0
    for channels, count in _VGG16:
        for _ in range(count):
            x = tape.conv(f"features.{place}", x, channels, (3, 3), pad=(1, 1), bias=True)
            place += 2
        x = tape.pool(x, 2, 2)
        place += 1
    _classifier(tape, x.elements, (0, 3, 6))
    return tape


def alexnet() -> Tape:
    """AlexNet as in one column (Krizhevsky 2014), dropout before the dense layers."""
    tape = Tape()
    x = tape.conv("features.0", IMAGE, 64, (11, 11), stride=4, pad=(2, 2), bias=True)
    x = tape.pool(x, 3, 2)
    x = tape.conv("features.3", x, 192, (5, 5), pad=(2, 2), bias=True)
    x = tape.pool(x, 3, 2)
    for place, channels in ((6, 384), (8, 256), (10, 256)):
        x = tape.conv(f"features.{place}", x, channels, (3, 3), pad=(1, 1), bias=True)
    x = tape.pool(x, 3, 2)
    _classifier(tape, x.elements, (1, 4, 6))
    return tape


def _classifier(tape: Tape, inputs: int, places: tuple[int, int, int]) -> None:
    """Two dense layers of 4096, their activations and dropouts kept, and one for the classes."""
    first, second, last = places
    tape.dense(f"classifier.{first}", inputs, 4096, kept=2 * 4096)
    tape.dense(f"classifier.{second}", 4096, 4096, kept=2 * 4096)
    tape.dense(f"classifier.{last}", 4096, CLASSES)
