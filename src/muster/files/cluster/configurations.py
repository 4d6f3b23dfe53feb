"""The configuration sets of a cluster file: equal nodes described once."""

from collections.abc import Mapping

from muster.files.cluster.cluster_entries import ConfigurationEntry
from muster.files.errors import FieldError
from muster.files.source.quantity import name_at
from muster.files.source.tree import DEFAULT_NIC, layers_of, link_of
from muster.model.topology import DEFAULT_HOST, ConfigurationSet

_NEEDS_DEVICES = (
    "generation",
    "device_memory",
    "device_rate",
    "device_bandwidth",
    "switches",
    "nvlink",
    "links",
)


def configurations_of(entries: Mapping[str, ConfigurationEntry]) -> dict[str, ConfigurationSet]:
    """Return the configuration sets of a file, by name."""
    if not entries:
        raise FieldError(("configurations",), "must name at least one configuration")
    found = {}
    for name, entry in entries.items():
        name_at(("configurations", name), name)
        try:
            found[name] = configuration_of(name, entry)
        except FieldError as error:
            raise error.below("configurations", name) from None
    return found


def configuration_of(name: str, entry: ConfigurationEntry) -> ConfigurationSet:
    """Return the configuration set of an entry; FieldError where fields conflict."""
    _refuse_half_described(entry)
    device_type = entry.device or ""
    return ConfigurationSet(
        name=name,
        device_type=device_type,
        generation=entry.generation or device_type,
        devices=entry.devices,
        device_memory=entry.device_memory,
        layers=layers_of(entry) if entry.devices else (),
        millicores=entry.cores,
        memory=entry.memory,
        nic=link_of(entry.nic, DEFAULT_NIC),
        host=link_of(entry.host, DEFAULT_HOST),
        device_rate=entry.device_rate,
        device_bandwidth=entry.device_bandwidth,
    )


def _refuse_half_described(entry: ConfigurationEntry) -> None:
    """Refuse a device type without a count, and device fields without devices."""
    if entry.devices and entry.device is None:
        raise FieldError(("device",), "is missing; write for example P100")
    if entry.device is not None and not entry.devices:
        if "devices" in entry.model_fields_set:
            raise FieldError(("devices",), "must be at least 1 with a device type")
        raise FieldError(("devices",), "is missing; write for example 8")
    if not entry.devices:
        for field in _NEEDS_DEVICES:
            if field in entry.model_fields_set:
                raise FieldError((field,), "needs a node with devices")
