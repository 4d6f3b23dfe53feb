"""A small network trained with NumPy: what the members of a measured sweep run.

A student learns a fixed teacher (both multilayer perceptrons) by momentum SGD. Reports its loss on
held-back samples after each epoch, and saves its state first. `--pace`: least seconds of an epoch, as
on a device of fixed speed.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FEATURES, TRAINED, HELD, BATCH = 8, 512, 512, 32

State = dict[str, np.ndarray]


def data() -> tuple[np.ndarray, ...]:
    """Samples of the teacher, with noise: the same for every member."""
    random = np.random.default_rng(12345)
    inputs = random.standard_normal((TRAINED + HELD, FEATURES))
    first, second = random.standard_normal((FEATURES, 12)), random.standard_normal((12, 1))
    wanted = np.tanh(inputs @ first / np.sqrt(FEATURES)) @ second / np.sqrt(12)
    wanted += 0.05 * random.standard_normal(wanted.shape)
    return inputs[:TRAINED], wanted[:TRAINED], inputs[TRAINED:], wanted[TRAINED:]


def fresh(width: int, seed: int) -> State:
    """A student before its first epoch."""
    random = np.random.default_rng(seed)
    first = random.standard_normal((FEATURES, width)) / np.sqrt(FEATURES)
    second = random.standard_normal((width, 1)) / np.sqrt(width)
    state = {"w1": first, "b1": np.zeros(width), "w2": second, "b2": np.zeros(1)}
    state |= {f"v{name}": np.zeros_like(value) for name, value in state.items()}
    return {**state, "epoch": np.array(0)}


def train(state: State, lr: float, momentum: float, seed: int) -> Iterator[float]:
    """Train in place, for ever; yield the held-back loss after each epoch."""
    inputs, wanted, held, held_wanted = data()
    with np.errstate(all="ignore"):  # a rate that is too high diverges, which is a result
        while True:
            epoch = int(state["epoch"])
            order = np.random.default_rng((seed, epoch)).permutation(TRAINED)
            for rows in order.reshape(-1, BATCH):
                _step(state, inputs[rows], wanted[rows], lr, momentum)
            state["epoch"] = np.array(epoch + 1)
            hidden = np.tanh(held @ state["w1"] + state["b1"])
            yield float(np.mean((hidden @ state["w2"] + state["b2"] - held_wanted) ** 2))


def _step(state: State, inputs: np.ndarray, wanted: np.ndarray, lr: float, momentum: float) -> None:
    hidden = np.tanh(inputs @ state["w1"] + state["b1"])
    error = 2 * (hidden @ state["w2"] + state["b2"] - wanted) / len(inputs)
    inner = (error @ state["w2"].T) * (1 - hidden**2)
    slopes = {"w1": inputs.T @ inner, "b1": inner.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
    for name, slope in slopes.items():
        state[f"v{name}"] = momentum * state[f"v{name}"] - lr * slope
        state[name] = state[name] + state[f"v{name}"]


def main() -> None:
    import muster

    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--lr", "--momentum", "--pace"):
        parser.add_argument(name, type=float, required=True)
    for name in ("--width", "--epochs", "--seed"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    saved = Path(os.environ["MUSTER_CHECKPOINT"]) / "state.npz"
    saved.parent.mkdir(parents=True, exist_ok=True)
    state = dict(np.load(saved)) if saved.exists() else fresh(given.width, given.seed)
    losses = train(state, given.lr, given.momentum, given.seed)
    while int(state["epoch"]) < given.epochs:
        begun = time.monotonic()
        loss = next(losses)
        time.sleep(max(0.0, given.pace - (time.monotonic() - begun)))
        np.savez(saved, **state)
        muster.report(epoch=int(state["epoch"]), loss=loss)


if __name__ == "__main__":
    main()
