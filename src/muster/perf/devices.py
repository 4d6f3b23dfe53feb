"""Rates of device types from the makers' data sheets: the prior where nothing was measured."""

from dataclasses import dataclass
from math import isclose

from muster.model.profile import LayerType
from muster.model.topology import ConfigurationSet


@dataclass(frozen=True, slots=True)
class DeviceRate:
    """Operations/s in single and in half precision, and bytes/s of the device's own memory."""

    single: float
    half: float
    memory: float

    def operations(self, parameter_bytes: int) -> float:
        """Return operations/s for parameters of this many bytes."""
        return self.half if parameter_bytes <= 2 else self.single


RATES = {
    "K80": DeviceRate(2.8e12, 2.8e12, 240e9),  # one of the two chips of a board, at its base clock
    "P100": DeviceRate(10.6e12, 21.2e12, 732e9),
    "P40": DeviceRate(11.8e12, 11.8e12, 346e9),
    "V100": DeviceRate(15.7e12, 125e12, 900e9),
    "T4": DeviceRate(8.1e12, 65e12, 320e9),
    "RTX2080TI": DeviceRate(13.4e12, 107e12, 616e9),
    "RTX3090": DeviceRate(35.6e12, 142e12, 936e9),
    "RTX4090": DeviceRate(82.6e12, 330e12, 1008e9),
    "A10": DeviceRate(31.2e12, 125e12, 600e9),
    "L4": DeviceRate(30.3e12, 121e12, 300e9),
    "L40": DeviceRate(90.5e12, 181e12, 864e9),
    "A100": DeviceRate(19.5e12, 312e12, 1555e9),
    "H100": DeviceRate(67e12, 989e12, 3350e9),
    "H200": DeviceRate(67e12, 989e12, 4800e9),
    "B200": DeviceRate(80e12, 2250e12, 8000e9),
    "MI250": DeviceRate(45.3e12, 362e12, 3277e9),
    "MI300X": DeviceRate(163e12, 1307e12, 5300e9),
}

CORE = DeviceRate(40e9, 40e9, 10e9)
"""One CPU core with 256-bit vectors, and its part of the memory's bandwidth."""

_PRODUCT = 0.65
"""Part of the rated operations/s that large matrix products reach."""

REACHED = {
    # Winograd's F(2x2, 3x3) needs 2.25 times fewer products than are counted (Lavin and Gray 2016).
    LayerType.CONVOLUTION: 2.25 * _PRODUCT,
    LayerType.POINTWISE: _PRODUCT,
    LayerType.DENSE: _PRODUCT,
    LayerType.ATTENTION: 0.75 * _PRODUCT,
    LayerType.RECURRENT: 0.5 * _PRODUCT,  # small products, one after the other
    LayerType.EMBEDDING: _PRODUCT,
    LayerType.NORM: _PRODUCT,
    LayerType.OTHER: _PRODUCT,
}
"""Part of the rated operations/s that layers of a type reach."""

PASSES = 11.0
"""Times a byte kept for the backward pass moves through device memory in a step: written and read by
the layer, its normalisation and its activation, forwards and backwards."""

MEMORY_REACHED = 0.75
"""Part of the rated memory bandwidth that element-wise kernels reach."""

LAUNCH = 30e-6
"""Seconds per tensor and step, whatever the batch: kernel launches of three passes."""


ALIKE = 1e-3
"""Relative difference of rates that are the same: files tell them to some digits."""


def rate_of_cores(cores: float) -> DeviceRate:
    """Return the rate of CPU cores."""
    return DeviceRate(CORE.single * cores, CORE.half * cores, CORE.memory * cores)


def rate_of_device(kind: ConfigurationSet) -> DeviceRate | None:
    """Return the rate of a configuration set's devices: from the cluster file, else the data sheet."""
    sheet = data_sheet(kind.device_type)
    single = kind.device_rate or (sheet.single if sheet else 0.0)
    memory = kind.device_bandwidth or (sheet.memory if sheet else 0.0)
    if not single or not memory:
        return None
    return DeviceRate(single, single * sheet.half / sheet.single if sheet else single, memory)


def made_of_cores(kind: ConfigurationSet) -> bool:
    """Whether the devices are virtual: their rate is counted from the node's cores."""
    if not kind.device_rate or not kind.devices:
        return False
    cores = rate_of_cores(kind.millicores / 1000 / kind.devices)
    return isclose(kind.device_rate, cores.single, rel_tol=ALIKE)


def data_sheet(device_type: str) -> DeviceRate | None:
    """Return the data sheet of a device type by its name; `A100-80GB` is an A100."""
    plain = "".join(letter for letter in device_type.upper() if letter.isalnum())
    known = [name for name in RATES if plain.startswith(name)]
    return RATES[max(known, key=len)] if known else None
