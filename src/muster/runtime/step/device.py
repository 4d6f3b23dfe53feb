"""The device of a task, and numbers read from it asynchronously."""

import os
import re

import torch
from torch import Tensor


def device_of(given: str, task: str) -> torch.device:
    """Return the device that is named, or a GPU if there is one; workers of one node take turns."""
    if given == "cpu" or ":" in given or not (given or torch.cuda.is_available()):
        return torch.device(given or "cpu")
    number = re.search(r"(\d+)$", task)
    index = int(number.group()) % max(1, torch.cuda.device_count()) if number else 0
    return torch.device("cuda", index)


def device_name(device: torch.device) -> str:
    """Return a name that two tasks share only if they share the device."""
    if device.type != "cuda":
        return device.type
    # NCCL takes processes with host names of their own for hosts of their own, even on one GPU.
    return f"gpu-{torch.cuda.get_device_properties(device).uuid}{os.environ.get('NCCL_HOSTID', '')}"


class DeviceNumber:
    """A number being read from a device, without waiting for what is queued behind it."""

    def __init__(self, number: Tensor) -> None:
        self._number = number
        self._event: torch.cuda.Event | None = None
        if number.is_cuda:
            self._number = torch.empty((), dtype=number.dtype, pin_memory=True)
            self._number.copy_(number, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def get(self) -> float:
        """Wait for the number."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._number)
