"""What is recorded: one recipe per curve. `TUNING` curves choose constants and make no figures."""

from collections.abc import Callable
from dataclasses import dataclass

import datasets
import models
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model, its data and how it is trained."""

    samples: Callable[[], datasets.Samples]
    model: Callable[[], nn.Module]
    optimiser: Callable[[nn.Module], optim.Optimizer]
    epochs: int
    batch: int = 64
    loss: Loss = nn.functional.cross_entropy
    schedule: Callable[[optim.Optimizer], LRScheduler] | None = None
    seed: int = 0


def sgd(rate: float, momentum: float = 0.0) -> Callable[[nn.Module], optim.Optimizer]:
    """Stochastic gradient descent."""
    return lambda model: optim.SGD(model.parameters(), lr=rate, momentum=momentum)


def adam(rate: float) -> Callable[[nn.Module], optim.Optimizer]:
    """Adam with its usual betas."""
    return lambda model: optim.Adam(model.parameters(), lr=rate)


def characters(logits: Tensor, following: Tensor) -> Tensor:
    """Cross-entropy of the next character, at every place of every piece."""
    return nn.functional.cross_entropy(logits, following.flatten())


mse = nn.functional.mse_loss

BENCHMARK = {
    "logistic-cancer-sgd": Recipe(datasets.cancer, lambda: models.linear(30, 2), sgd(0.01), 100),
    "mlp-digits-momentum": Recipe(
        datasets.digits, lambda: models.mlp(64, 32, 10), sgd(0.005, 0.9), 100
    ),
    "cnn-digits-adam": Recipe(datasets.images, models.cnn, adam(5e-4), 80),
    "resnet-digits-momentum": Recipe(datasets.images, lambda: models.resnet(8), sgd(0.005, 0.9), 60),
    "lstm-text-adam": Recipe(
        datasets.argparse_text, lambda: models.Recurrent(nn.LSTM, 64), adam(2e-3), 80, loss=characters
    ),
    "transformer-text-adam": Recipe(
        datasets.argparse_text, lambda: models.Transformer(48, 2, 32), adam(1e-3), 80, loss=characters
    ),
    "autoencoder-digits-adam": Recipe(
        datasets.pictures_of_themselves, lambda: models.autoencoder(8), adam(1e-3), 120, loss=mse
    ),
    "factors-words-sgd": Recipe(
        datasets.word_pairs, lambda: models.Factors(200, 200, 8), sgd(1.0), 150, loss=mse
    ),
    "mlp-digits-steps": Recipe(
        datasets.digits,
        lambda: models.mlp(64, 32, 10),
        sgd(0.02),
        120,
        schedule=lambda optimiser: MultiStepLR(optimiser, [70, 100], gamma=0.1),
    ),
    "cnn-digits-cosine": Recipe(
        datasets.images,
        models.cnn,
        sgd(0.05),
        80,
        schedule=lambda optimiser: CosineAnnealingLR(optimiser, 80),
    ),
    "mlp-noisy-digits-adam": Recipe(
        datasets.noisy_digits, lambda: models.mlp(64, 64, 10), adam(5e-4), 120
    ),
    "mlp-diabetes-sgd": Recipe(
        datasets.diabetes, lambda: models.mlp(10, 32, 1), sgd(0.005), 120, batch=32, loss=mse
    ),
    "mlp-wine-sgd": Recipe(datasets.wine, lambda: models.mlp(13, 16, 3), sgd(0.02), 120, batch=16),
    "lstm-text-steps": Recipe(
        datasets.typing_text,
        lambda: models.Recurrent(nn.LSTM, 48),
        sgd(8.0),
        90,
        loss=characters,
        schedule=lambda optimiser: MultiStepLR(optimiser, [60], gamma=0.1),
        seed=1,
    ),
    "mlp-noisy-digits-steps": Recipe(
        datasets.noisy_digits,
        lambda: models.mlp(64, 32, 10),
        sgd(0.1, 0.9),
        100,
        batch=32,
        schedule=lambda optimiser: MultiStepLR(optimiser, [50, 80], gamma=0.1),
        seed=2,
    ),
    "mlp-digits-stuck": Recipe(datasets.digits, lambda: models.mlp(64, 32, 10), sgd(5.0, 0.9), 40),
    "linear-diabetes-diverges": Recipe(
        datasets.diabetes, lambda: models.linear(10, 1), sgd(0.27), 60, loss=mse
    ),
}

TUNING = {
    "softmax-digits-sgd": Recipe(
        datasets.digits, lambda: models.linear(64, 10), sgd(0.05), 120, seed=10
    ),
    "mlp-cancer-adam": Recipe(datasets.cancer, lambda: models.mlp(30, 16, 2), adam(3e-4), 100, seed=11),
    "gru-text-adam": Recipe(
        datasets.typing_text,
        lambda: models.Recurrent(nn.GRU, 48),
        adam(1e-3),
        80,
        loss=characters,
        seed=12,
    ),
    "cnn-digits-sgd": Recipe(datasets.images, models.cnn, sgd(0.02), 100, seed=13),
    "autoencoder-digits-momentum": Recipe(
        datasets.pictures_of_themselves,
        lambda: models.autoencoder(4),
        sgd(0.5, 0.9),
        120,
        loss=mse,
        seed=14,
    ),
    "mlp-diabetes-adam": Recipe(
        datasets.diabetes, lambda: models.mlp(10, 16, 1), adam(1e-3), 120, loss=mse, seed=15
    ),
    "factors-digits-adam": Recipe(
        datasets.pixel_pairs,
        lambda: models.Factors(300, 64, 6),
        adam(5e-3),
        60,
        batch=256,
        loss=mse,
        seed=16,
    ),
    "softmax-wine-momentum": Recipe(
        datasets.wine, lambda: models.linear(13, 3), sgd(0.002, 0.9), 100, batch=32, seed=17
    ),
    "patches-digits-adam": Recipe(datasets.images, lambda: models.Patches(24), adam(1e-3), 60, seed=18),
    "bigrams-mail-sgd": Recipe(
        datasets.mail_pairs, lambda: models.linear(128, 128), sgd(1.0), 80, batch=128, seed=19
    ),
    "resnet-digits-adam": Recipe(datasets.images, lambda: models.resnet(6), adam(1e-3), 60, seed=20),
    "mlp-digits-cosine": Recipe(
        datasets.digits,
        lambda: models.mlp(64, 24, 10),
        sgd(0.05),
        100,
        schedule=lambda optimiser: CosineAnnealingLR(optimiser, 100),
        seed=21,
    ),
    "mlp-cancer-steps": Recipe(
        datasets.cancer,
        lambda: models.mlp(30, 16, 2),
        sgd(0.005),
        120,
        batch=16,
        schedule=lambda optimiser: MultiStepLR(optimiser, [80], gamma=0.1),
        seed=22,
    ),
    "mlp-noisy-digits-momentum": Recipe(
        datasets.noisy_digits, lambda: models.mlp(64, 48, 10), sgd(0.01, 0.9), 100, seed=23
    ),
    "cnn-noisy-digits-steps": Recipe(
        datasets.noisy_images,
        models.cnn,
        sgd(0.05, 0.9),
        80,
        batch=16,
        schedule=lambda optimiser: MultiStepLR(optimiser, [45, 65], gamma=0.1),
        seed=24,
    ),
    "tanh-wine-rmsprop": Recipe(
        datasets.wine,
        lambda: nn.Sequential(nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3)),
        lambda model: optim.RMSprop(model.parameters(), lr=5e-4),
        120,
        batch=32,
        seed=25,
    ),
    "transformer-text-sgd": Recipe(
        datasets.typing_text,
        lambda: models.Transformer(32, 1, 32),
        sgd(0.1, 0.9),
        70,
        loss=characters,
        seed=26,
    ),
    "factors-words-adam": Recipe(
        datasets.word_pairs,
        lambda: models.Factors(200, 200, 4),
        adam(2e-3),
        100,
        batch=128,
        loss=mse,
        seed=27,
    ),
    "mlp-wine-adam": Recipe(
        datasets.wine, lambda: models.mlp(13, 24, 3), adam(5e-4), 80, batch=32, seed=28
    ),
    "cnn-digits-momentum": Recipe(datasets.images, models.cnn, sgd(0.01, 0.9), 60, seed=29),
    "tanh-digits-sgd": Recipe(
        datasets.digits,
        lambda: nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)),
        sgd(0.02),
        150,
        seed=30,
    ),
    "mlp-cancer-momentum": Recipe(
        datasets.cancer, lambda: models.mlp(30, 8, 2), sgd(0.002, 0.9), 100, batch=32, seed=31
    ),
    "mlp-diabetes-momentum": Recipe(
        datasets.diabetes,
        lambda: models.mlp(10, 24, 1),
        sgd(0.001, 0.9),
        100,
        batch=32,
        loss=mse,
        seed=32,
    ),
    "autoencoder-digits-rmsprop": Recipe(
        datasets.pictures_of_themselves,
        lambda: models.autoencoder(6),
        lambda model: optim.RMSprop(model.parameters(), lr=5e-4),
        100,
        loss=mse,
        seed=33,
    ),
    "lstm-text-momentum": Recipe(
        datasets.mail_text,
        lambda: models.Recurrent(nn.LSTM, 48),
        sgd(1.0, 0.9),
        80,
        loss=characters,
        seed=34,
    ),
    "gru-text-cosine": Recipe(
        datasets.argparse_text,
        lambda: models.Recurrent(nn.GRU, 40),
        adam(3e-3),
        60,
        loss=characters,
        schedule=lambda optimiser: CosineAnnealingLR(optimiser, 60),
        seed=35,
    ),
    "transformer-mail-adam": Recipe(
        datasets.mail_text,
        lambda: models.Transformer(32, 1, 32),
        adam(2e-3),
        80,
        loss=characters,
        seed=36,
    ),
    "factors-words-momentum": Recipe(
        datasets.word_pairs,
        lambda: models.Factors(200, 200, 6),
        sgd(0.3, 0.9),
        80,
        batch=128,
        loss=mse,
        seed=37,
    ),
    "resnet-digits-sgd": Recipe(datasets.images, lambda: models.resnet(6), sgd(0.02), 70, seed=38),
}
