"""Steps of real models timed on the device of this machine. Needs torch and nothing else of ours."""

import statistics
import time
from pathlib import Path

import torch

from support.networks import NETWORKS

BATCHES = {
    "resnet50": (8, 16, 32, 64, 128, 256),
    "vgg16": (8, 16, 32, 64, 128),
    "lstm6": (5, 10, 20, 40, 80, 160),
    "gpt2-small": (1, 2, 4, 8, 16),
}
STEPS = 12


def measure(path: Path) -> None:
    """Time forward and backward passes on this machine's device and write them down."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name().split()[-1] if device == "cuda" else "cpu"
    with path.open("w") as file:
        file.write(
            f"# forward and backward, torch {torch.__version__}, default precision (TF32 in cuDNN)\n"
        )
        file.write("model,device,batch,seconds\n")
        for model, batches in BATCHES.items():
            for batch in batches:
                seconds = step_seconds(model, batch, device)
                file.write(f"{model},{name},{batch},{seconds:.6f}\n")
                print(model, name, batch, f"{batch / seconds:.1f} samples/s", flush=True)


def step_seconds(model: str, batch: int, device: str) -> float:
    """The median step of a real model."""
    build, shape, classes = NETWORKS[model]
    network = build().to(device)
    images = len(shape) == 3
    x = (
        torch.randn(batch, *shape, device=device)
        if images
        else torch.randint(classes, (batch, *shape), device=device)
    )
    y = torch.randint(classes, (batch,) if images else (batch, *shape), device=device)

    def step() -> float:
        begun = time.perf_counter()
        scores = network(x)
        flat = scores if images else scores.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(flat, y.flatten())
        loss.backward()
        network.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    return statistics.median([step() for _ in range(STEPS)][STEPS // 3 :])
