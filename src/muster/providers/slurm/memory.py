"""What a later daemon of the same store needs to know of the pilots."""

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.providers.slurm.script import PilotShare
from muster.providers.slurm.site import SlurmSite


@dataclass
class PilotMemory:
    """A file in the provider's folder: the pilots' name in Slurm, which all daemons of one store share
    and no other; the hosts of those that run; the site, for a start while slurmctld is away."""

    path: Path
    label: str = ""
    hosts: dict[int, str] = field(default_factory=dict)
    site: SlurmSite | None = None

    @classmethod
    def open(cls, path: Path) -> "PilotMemory":
        """Read it, or begin one."""
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            site = found["site"] and SlurmSite(
                PilotShare(found["site"]["devices"], tuple(found["site"]["arguments"])),
                found["site"]["kill_wait"],
            )
            hosts = {int(job): str(host) for job, host in found["hosts"].items()}
            return cls(path, str(found["label"]), hosts, site)
        except FileNotFoundError:
            return cls(path, f"muster-{secrets.token_hex(4)}")

    def keep(self, *, hosts: dict[int, str] | None = None, site: SlurmSite | None = None) -> None:
        """Write it, if anything is new."""
        fresh = (self.hosts if hosts is None else hosts, site or self.site)
        if fresh != (self.hosts, self.site) or not self.path.exists():
            self.hosts, self.site = fresh
            half = self.path.with_suffix(".half")
            half.write_text(json.dumps(self._fields()), encoding="utf-8")
            half.replace(self.path)

    def _fields(self) -> dict[str, Any]:
        site = self.site and {
            "devices": self.site.share.devices,
            "arguments": self.site.share.arguments,
            "kill_wait": self.site.kill_wait,
        }
        return {"label": self.label, "hosts": self.hosts, "site": site}
