"""Keeps freed memory in the process between steps."""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's mallopt(3)."""
LARGEST = 32 << 20
"""The largest block that glibc may take from its heap, in bytes."""
KEPT = 1 << 30
"""Bytes that may stay free at the end of the heap."""


def keep_heap() -> None:
    """Ask glibc not to return memory to the system between steps; do nothing elsewhere.

    By default the end of the heap is returned whenever 128 KiB of it are free, and comes back as page
    faults: 2,500 per step, a tenth of its time, in a small ResNet on a CPU.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT)
