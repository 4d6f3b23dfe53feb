"""The sweep that options of `muster run` describe, as in a job file. Quick to import."""

from collections.abc import Mapping
from typing import Any

from muster.cli.jobs.submitting.options import RunRequest
from muster.files.errors import InputError


def sweep_options(request: RunRequest, written: Any) -> dict[str, Any]:
    """Return the `sweep:` of a job: the file's, overridden by options; empty: it is none."""
    found: dict[str, Any] = dict(written) if isinstance(written, Mapping) else {}
    for each in request.sweep or ():
        name, equals, values = each.partition("=")
        if not equals or not name or not values:
            problem = f"{each!r} is not NAME=VALUES; write for example --sweep lr=0.1,0.01"
            raise InputError.at("--sweep", problem)
        found["over"] = {**found.get("over", {}), name: values}
    given = {
        "samples": request.samples,
        "seed": request.seed,
        "at_most": request.at_most,
        "array": request.array,
        "asha": request.asha and _asha(request.asha),
    }
    found |= {name: value for name, value in given.items() if value is not None}
    if found and not found.keys() & {"over", "array"}:
        option = next(name for name in given if name in found).replace("_", "-")
        raise InputError.at(f"--{option}", "needs a sweep; add for example --sweep lr=0.1,0.01")
    return found


def _asha(text: str) -> dict[str, str]:
    from muster.cli.parse import parsed
    from muster.files.job.axes import parse_asha

    return parsed("--asha", text, parse_asha)
