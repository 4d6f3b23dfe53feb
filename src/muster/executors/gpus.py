"""The GPUs of this machine, from NVML."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.perf.devices import RATES

LINK_RATE = {1: 20, 5: 50}
"""GB/s per direction of one NVLink, by version; 25 for those in between."""

MAX_LINKS = 18
"""Most NVLinks of a device, to date."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """Equal GPUs of one machine, in order of their numbers, and their groups."""

    device_type: str
    memory: int
    """Bytes of the smallest."""
    count: int
    sockets: tuple[int, ...]
    """GPUs per socket, with consecutive numbers; one group if unknown or not consecutive."""
    switches: tuple[int, ...]
    nvlink: int | None = None
    """GPUs per NVLink group; None: no groups, or of several sizes."""
    nvlink_rate: int = 0
    """GB/s per direction of one GPU to its group."""


class MixedError(ValueError):
    """The GPUs are of several types."""


def find_gpus(nvml: Any = None, only: Sequence[str] | None = None) -> Gpus | None:
    """Return the GPUs of this machine, or None. `nvml`: the library, for tests; `only`: those with
    these numbers or UUIDs, as in CUDA_VISIBLE_DEVICES."""
    if nvml is None:
        import pynvml as nvml  # type: ignore[import-untyped,no-redef]
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None  # no driver: no GPUs
    try:
        return _read(nvml, handles_of(nvml, only))
    finally:
        nvml.nvmlShutdown()


def type_of(name: str) -> str:
    """Return the device type of a product name: "NVIDIA H100 80GB HBM3" is an H100."""
    spelled = re.sub(r"[^A-Z0-9. ]+", " ", name.upper())
    # "RTX 2080 Ti" counts as one word.
    words = re.sub(r"\b(RTX|GTX) (\d+)( TI\b)?", lambda m: m[0].replace(" ", ""), spelled).split()
    for known in RATES:
        if known in words:
            return known
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-")
    return plain.removeprefix("NVIDIA-").removeprefix("GeForce-")[:63] or "gpu"


def handles_of(nvml: Any, only: Sequence[str] | None = None) -> list[Any]:
    """Return NVML's handles of the GPUs, of those with these numbers or UUIDs, in their order."""
    if only is None:
        return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    found = []
    for name in only:
        try:
            by_number = name.isdecimal()
            find = nvml.nvmlDeviceGetHandleByIndex if by_number else nvml.nvmlDeviceGetHandleByUUID
            found.append(find(int(name) if by_number else name))
        except nvml.NVMLError:
            continue  # CUDA ignores what is not there, too
    return found


def _read(nvml: Any, handles: list[Any]) -> Gpus | None:
    if not handles:
        return None
    names = [nvml.nvmlDeviceGetName(handle) for handle in handles]
    # Older versions of the library return bytes.
    types = {type_of(name.decode() if isinstance(name, bytes) else name) for name in names}
    if len(types) > 1:
        raise MixedError(", ".join(sorted(types)))

    def near(level: int) -> Callable[[int, int], bool]:
        return lambda a, b: nvml.nvmlDeviceGetTopologyCommonAncestor(handles[a], handles[b]) <= level

    def linked(a: int, b: int) -> bool:
        status = nvml.nvmlDeviceGetP2PStatus(handles[a], handles[b], nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        return bool(status == nvml.NVML_P2P_STATUS_OK)

    count = len(handles)
    joined = _groups(nvml, count, linked)
    rate = _nvlink_rate(nvml, handles[0])
    group = joined[0] if rate and len(set(joined)) == 1 and joined[0] > 1 else None
    return Gpus(
        device_type=types.pop(),
        memory=min(_memory(nvml, handle) for handle in handles),
        count=count,
        sockets=_groups(nvml, count, near(nvml.NVML_TOPOLOGY_NODE)),
        switches=_groups(nvml, count, near(nvml.NVML_TOPOLOGY_MULTIPLE)),
        nvlink=group,
        nvlink_rate=rate if group else 0,
    )


def _memory(nvml: Any, handle: Any) -> int:
    """Bytes of a GPU; 0 if it has no memory of its own."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        return 0


def _groups(nvml: Any, count: int, together: Callable[[int, int], bool]) -> tuple[int, ...]:
    """Sizes of the groups of consecutive GPUs; one group if NVML does not say or they are mixed."""
    sizes: list[int] = []
    try:
        for i in range(count):
            if i and together(i - 1, i):
                sizes[-1] += 1
            elif any(together(other, i) for other in range(i - 1)):
                return (count,)
            else:
                sizes.append(1)
    except nvml.NVMLError:
        return (count,)
    return tuple(sizes)


def _nvlink_rate(nvml: Any, handle: Any) -> int:
    """GB/s per direction of all NVLinks of a GPU."""
    rate = 0
    for link in range(MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                rate += LINK_RATE.get(nvml.nvmlDeviceGetNvLinkVersion(handle, link), 25)
        except nvml.NVMLError:
            break  # it has no more
    return rate
