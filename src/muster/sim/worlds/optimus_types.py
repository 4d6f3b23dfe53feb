"""The nine job types of Optimus' evaluation, and their hardware.

Parameters and data sets: the paper's Table 1 as far as remembered (the seed names the types only).
Operations: published for ResNet-110 on CIFAR (He et al. 2016), ResNet-50 (our profile) and Inception-BN
(Ioffe and Szegedy 2015); counted from MXNet's example for the plankton net (48 x 48 pixels, 308 M
products); elsewhere 2 · parameters in use · positions of a sample, as dense and recurrent layers need.
Tensors: counted from the architectures (the larger ones roughly). Mini-batches: Optimus' published
code for the first two; for the others the usual ones of the examples its authors say they took (not
checked one by one).
Losses: b0 and b2 as fitted by `perf.epochs.loss_curve` to a recorded training of the nearest kind of
model in `examples/training/curves` (tests/unit/sim/worlds/test_curves.py names each): the paper prints
curves without their terms.
"""

from dataclasses import dataclass

from muster.model.job import Need
from muster.model.profile import LayerType
from muster.perf.devices import DeviceRate, rate_of_cores
from muster.sim.worlds.curves import Hardware, ModelSize

GB = 10**9
GIGABIT = 125e6
"""Bytes/s of the testbed's network."""


@dataclass(frozen=True, slots=True)
class JobType:
    """One of the nine: the model, its data, its mini-batch and its loss."""

    name: str
    size: ModelSize
    samples: int
    minibatch: int
    """Samples of one worker's step."""
    b0: float
    b2: float


@dataclass(frozen=True, slots=True)
class Containers:
    """Needs of the testbed's workers and servers, and their hardware."""

    worker: Need
    server: Need
    site: Hardware


_DEVICE = DeviceRate(11.3e12, 11.3e12, 484e9)
"""GTX 1080 Ti, by its data sheet: as far as remembered the testbed's device."""

CONTAINERS = {
    # Optimus' published code: 2 cores, 8 GB and a GPU for a worker, 3 cores and 9 GB for a server.
    "gpu": Containers(
        Need(devices=1, millicores=2_000, memory=8 * GB),
        Need(millicores=3_000, memory=9 * GB),
        Hardware(_DEVICE, server_cores=3, link=GIGABIT),
    ),
    # The paper's CPU testbed: 5 cores and 10 GB for either.
    "cpu": Containers(
        Need(millicores=5_000, memory=10 * GB),
        Need(millicores=5_000, memory=10 * GB),
        Hardware(rate_of_cores(5), server_cores=5, link=GIGABIT),
    ),
}

_CONVOLUTION, _DENSE, _RECURRENT = LayerType.CONVOLUTION, LayerType.DENSE, LayerType.RECURRENT

TYPES = (
    # CIFAR-10; 255 M products
    JobType("resnext-110", ModelSize(1.7e6, 329, 0.51e9, _CONVOLUTION), 50_000, 128, 0.794, 0.0063),
    # ImageNet
    JobType("resnet-50", ModelSize(25.6e6, 161, 8.18e9, _CONVOLUTION), 1_281_167, 32, 0.288, 0.0136),
    # Caltech-256; 2.0 G products
    JobType("inception-bn", ModelSize(11.3e6, 209, 4.0e9, _CONVOLUTION), 30_607, 128, 0.273, 0.0342),
    # Kaggle's National Data Science Bowl
    JobType("kaggle-ndsb", ModelSize(1.4e6, 16, 0.62e9, _CONVOLUTION), 30_336, 64, 0.0707, 0.0129),
    # movie reviews, 56 words; 0.36 M of its parameters are filters, the rest is looked up
    JobType("cnn-rand", ModelSize(6e6, 9, 2 * 0.36e6 * 56, _DENSE), 10_662, 50, 0.24, 0.0248),
    # text8, pairs
    JobType("dssm", ModelSize(1.5e6, 6, 2 * 1.5e6, _DENSE), 214_288, 256, 0.616, 0.1784),
    # Penn Treebank, sequences of 35 words of a million
    JobType(
        "rnn-lstm", ModelSize(4.7e6, 11, 2 * 4.7e6 * 35, _RECURRENT), 1_000_000 // 35, 32, 0.108, 0.1317
    ),
    # a million sentences of WMT, 25 words
    JobType("seq2seq", ModelSize(9.1e6, 23, 2 * 9.1e6 * 25, _RECURRENT), 1_000_000, 64, 0.0977, 0.2205),
    # 45,000 utterances of LibriSpeech, 12.3 s in frames of 20 ms
    JobType("ds2", ModelSize(38e6, 48, 2 * 38e6 * 615, _RECURRENT), 45_000, 16, 0.45, 0.2677),
)
