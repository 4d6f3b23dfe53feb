"""Options of `muster run` for the rest of a job file's fields. Quick to import."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

from muster.cli.options import option

FIELDS = "Further fields of the job file"
RELATIONS = "Other jobs"
"""Groups of options in the help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """Fields of a job file, unparsed; None: not given."""

    after: Annotated[
        list[str] | None,
        option(
            RELATIONS,
            "Start once this job has ended: well (ok), in any way, or failed. Repeatable.",
            metavar="JOB[:ok|any|failed]",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        option(
            RELATIONS,
            "A label to find it by, as in `muster ps -l team=vision`. Repeatable.",
            "--label",
            "-l",
            metavar="KEY=VALUE",
        ),
    ] = None
    shell: Annotated[
        bool | None, option(FIELDS, "Run the command with `sh -c`.", "--shell/--no-shell")
    ] = None
    user: Annotated[
        str | None,
        option(FIELDS, "Owner of the job; administrators submit for others.", metavar="NAME"),
    ] = None
    preemptible: Annotated[
        bool | None,
        option(
            FIELDS,
            "Whether it may be stopped and restarted. (default: it may)",
            "--preemptible/--no-preemptible",
        ),
    ] = None
    any_of: Annotated[
        str | None,
        option(FIELDS, "Allowed device types, the best first.", metavar="TYPE,TYPE"),
    ] = None
    same_generation: Annotated[
        bool | None,
        option(
            FIELDS,
            "Whether its devices must be of one generation. (default: those it starts with must)",
            "--same-generation/--no-same-generation",
        ),
    ] = None
    gang: Annotated[str | None, option(FIELDS, "Workers that must start together.", metavar="N")] = None
    roles: Annotated[
        str | None,
        option(
            FIELDS,
            "The tasks of each role, as YAML: '{worker: {count: 2}, server: {count: 1, cores: 1}}'.",
            metavar="YAML",
        ),
    ] = None
    locality: Annotated[
        str | None,
        option(FIELDS, "How far apart its devices may be: node, rack, domain.", metavar="LEVEL|YAML"),
    ] = None
    model: Annotated[
        str | None,
        option(FIELDS, "Profile of the model: a shipped name or a file.", metavar="NAME|FILE"),
    ] = None
    step: Annotated[
        str | None,
        option(FIELDS, "What a step does: '{compute: 250ms, gradients: 100MB}'.", metavar="YAML"),
    ] = None
    duration: Annotated[str | None, option(FIELDS, "Expected run time: 2h.", metavar="TIME")] = None
    work: Annotated[str | None, option(FIELDS, "Total training steps.", metavar="N")] = None
    application: Annotated[
        str | None,
        option(FIELDS, "What it trains: jobs of one are expected to be alike.", metavar="NAME"),
    ] = None
    pause: Annotated[
        str | None, option(FIELDS, "Work lost by a resize or restart: 30s.", metavar="TIME")
    ] = None
    sync: Annotated[
        str | None,
        option(FIELDS, "How gradients are summed: auto, ring, sharded, dedicated.", metavar="WAY"),
    ] = None
    owners: Annotated[
        str | None, option(FIELDS, "What owners of parameters do: reduce, update.", metavar="PART")
    ] = None
    grace: Annotated[
        str | None, option(FIELDS, "Time between SIGTERM and SIGKILL. (default: 30s)", metavar="TIME")
    ] = None
    checkpoint_signal: Annotated[
        str | None, option(FIELDS, "Signal that asks for a checkpoint: SIGUSR1.", metavar="SIGNAL")
    ] = None
    checkpoint_grace: Annotated[
        str | None,
        option(FIELDS, "Time between that signal and SIGTERM. (default: 30s)", metavar="TIME"),
    ] = None
    finish_grace: Annotated[
        str | None, option(FIELDS, "Time for the script after its training.", metavar="TIME")
    ] = None
    warn: Annotated[
        str | None,
        option(FIELDS, "Warning before the time limit: 60s, SIGUSR1@60s.", metavar="[SIGNAL@]TIME"),
    ] = None
    at_most_once: Annotated[
        bool | None,
        option(
            FIELDS,
            "Whether a task on a node that is cut off keeps the job from restarting.",
            "--at-most-once/--no-at-most-once",
        ),
    ] = None
    resumes: Annotated[
        bool | None,
        option(FIELDS, "Whether it continues from a checkpoint.", "--resumes/--no-resumes"),
    ] = None
    failures: Annotated[
        str | None, option(FIELDS, "How often its tasks may fail and be retried.", metavar="N")
    ] = None
    losses: Annotated[
        str | None, option(FIELDS, "How often in a row it may lose tasks.", metavar="N")
    ] = None
    container: Annotated[
        str | None,
        option(
            FIELDS,
            "Run in a container: docker://pytorch/pytorch, /images/torch.sif, ./root, or "
            "'{image: ./root, engine: bwrap}'.",
            metavar="IMAGE|YAML",
        ),
    ] = None


_YAML = ("roles", "locality", "step", "container")


def given_fields(options: FieldOptions) -> dict[str, Any]:
    """Return the fields that were given, as a job file has them."""
    plain = {each.name: getattr(options, each.name) for each in fields(options)}
    found = {name: value for name, value in plain.items() if value is not None and value != []}
    after, labels = found.pop("after", None), found.pop("label", None)
    if after:
        found["after"] = list(after)
    if labels:
        found["labels"] = labels_of(labels)
    if "any_of" in found:
        found["any_of"] = [word.strip() for word in found["any_of"].split(",")]
    if "model" in found:
        found["model"] = _model(found["model"])
    for name in _YAML:
        if name in found:
            from muster.files.source.yaml_source import read_value  # seldom needed, and slow to import

            found[name] = read_value(found[name], f"--{name}")
    if "container" in found:
        found["container"] = _container(found["container"])
    return found


def _container(value: Any) -> Any:
    """An image that begins with a dot is a path from here."""
    image = value.get("image") if isinstance(value, dict) else value
    if not isinstance(image, str) or not image.startswith("."):
        return value
    from pathlib import Path

    place = str(Path(image).resolve())
    return {**value, "image": place} if isinstance(value, dict) else place


def labels_of(options: list[str]) -> dict[str, str]:
    """Return labels by key, from KEY=VALUE."""
    from muster.files.errors import InputError

    found = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError.at("--label", f"{text!r} is not KEY=VALUE; write for example team=vision")
        found[key] = value
    return found


def _model(text: str) -> Any:
    """A shipped name as it is; a file as the profile in it."""
    if "/" not in text and not text.endswith((".yaml", ".yml")):
        return text
    from pathlib import Path

    from muster.files.profile.profile_file import read_profile

    source = read_profile(text, Path.cwd())
    assert isinstance(source.data, dict)
    return {"name": Path(source.path).stem, **source.data}
