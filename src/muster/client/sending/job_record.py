"""The job to submit: from a file or a script."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.client.errors import ClientError, FieldFault


def read_file(path: Path) -> dict[str, Any]:
    """Read a job file; paths in it count from its own folder."""
    record = file_mapping(path)
    record.setdefault("name", path.stem)
    return placed(record, path.parent)


def placed(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a job with its paths counted from a folder."""
    if isinstance(record.get("folder"), str):
        record["folder"] = str(folder.absolute() / record["folder"])
    if isinstance(record.get("ship"), str):
        record["ship"] = str(folder.absolute() / record["ship"])
    place = record.get("checkpoint")
    if isinstance(place, str) and "://" not in place:
        record["checkpoint"] = str(folder.absolute() / place)
    source = record.get("resume_from")
    if isinstance(source, str) and "/" in source and "://" not in source:
        record["resume_from"] = str(folder.absolute() / source)
    model = record.get("model")
    if isinstance(model, str) and ("/" in model or model.endswith((".yaml", ".yml"))):
        profile = folder / model
        record["model"] = {"name": profile.stem, **file_mapping(profile)}
    return record


def script_record(
    script: Path, arguments: tuple[str, ...], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Make a job that runs a script as it would run here: this interpreter, this folder."""
    # Shipped, it is elsewhere under its relative name.
    named = os.path.relpath(script) if fields.get("ship") else str(script.absolute())
    return {
        "name": script.stem if re.search("[A-Za-z]", script.stem) else f"job-{script.stem}",
        "command": [sys.executable, named, *arguments],
        "folder": str(Path.cwd()),
        **fields,
    }


def own_script() -> Path:
    """Return the script that this process runs; ClientError if there is none."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or not Path(main).is_file():
        hint = "put it into a script, and use muster run train.py or submit_script"
        raise ClientError(0, "No Script", "a training can only be submitted from a script", hint)
    return Path(main)


def with_variables(record: Mapping[str, Any], env: Mapping[str, str | None] | None) -> dict[str, Any]:
    """Fill in the job's environment: variables without a value come from `env` or from the environment
    here; ClientError for any other."""
    given = {**(record.get("env") or {}), **(env or {})}
    found = {name: os.environ.get(name) if text is None else text for name, text in given.items()}
    missing = [name for name, text in found.items() if text is None]
    if missing:
        faults = [FieldFault(f"env.{name}", "has no value") for name in missing]
        hint = "give it with env=..., or set it in your own environment"
        raise ClientError(0, "No Value", "variables of the job have no value", hint, faults)
    return {**record, "env": found} if found else dict(record)


def file_mapping(path: Path) -> dict[str, Any]:
    """Read a file that is a mapping; ClientError if it is not."""
    from muster.client.sending.as_written import YAMLError, read_yaml

    try:
        found = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ClientError(0, "Bad File", f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        hint = f"write a job file with `command: python {path}` in it" if path.suffix == ".py" else ""
        raise ClientError(0, "Bad File", f"{path} is not a mapping of fields to values", hint)
    return found
