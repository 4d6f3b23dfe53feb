"""Job files that are wrong: one clear line each."""

from pathlib import Path

import pytest

from muster.files import load_job
from muster.files.errors import InputError


def error_of(tmp_path: Path, text: str, name: str = "j.yaml") -> str:
    """The line of a refused job file, without its directory."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_job(path)
    line = str(caught.value).removeprefix(f"{tmp_path}/")
    assert line.isprintable()
    return line


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("''", "is empty; write for example python train.py"),
        ("[]", "is empty; write for example python train.py"),
        ("['']", "is empty; write for example python train.py"),
        ("[[a]]", "must be a list of words, for example [python, train.py]"),
        ("{a: b}", "must be a line or a list of words, for example python train.py"),
        ('"a \\0"', "contains a null character"),
        (
            "python 'x",
            "cannot be split into words: no closing quotation; write for example python train.py",
        ),
        ("a && b", "is not run by a shell but contains '&&'; add shell: true"),
        ("|\n  a\n  b", "must be one line; for a script add shell: true"),
    ],
)
def test_commands(tmp_path: Path, command: str, message: str) -> None:
    assert error_of(tmp_path, f"command: {command}\n") == f"j.yaml:1: command: {message}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("devcies: 4", "2: devcies: unknown field (did you mean 'devices'?)"),
        (
            "name: my job",
            "2: name: 'my job' is not a name; use up to 63 letters, digits, '.', '-' "
            "and '_', for example lab-1",
        ),
        ("user: a b", "2: user: 'a b' is not a user's name; write for example ada"),
        ("pool:", "2: pool: has no value; add one or remove the line"),
        ("priority: high", "2: priority: 'high' is not a whole number; write for example 4"),
        ("priority: 9999999", "2: priority: must be at most 1000000, not 9999999"),
        ("preemptible: maybe", "2: preemptible: 'maybe' is neither true nor false"),
        ("cores: -1", "2: cores: '-1' is not a number of cores; write for example 4 or 0.5"),
        ("memory: 16", "2: memory: '16' has no unit; write for example 24GB or 512MiB"),
        ("duration: 0s", "2: duration: must be above 0, not '0s'"),
        (
            "duration: 2 hours",
            "2: duration: '2 hours' is not a time; write for example 2h, 1h30m, 45s or 250ms",
        ),
        ("pause: 30", "2: pause: '30' has no unit; write for example 2h, 1h30m, 45s or 250ms"),
        ("step: {compute: 1s}", "2: step.gradients: is missing; write for example 100MB"),
        ("step: {compute: 0s, gradients: 1MB}", "2: step.compute: must be above 0, not '0s'"),
        ("locality: nod", "2: locality: 'nod' is not a level (did you mean 'node'?)"),
        (
            "locality: {widest: zone}",
            "2: locality.widest: 'zone' is not a level; "
            "choose from: switch, socket, node, rack, domain, any",
        ),
        (
            "locality: {max_slowdown: 0.05}",
            "2: locality.max_slowdown: '0.05' is not a percentage; write for example 5%",
        ),
        (
            "priority: 1\nmemory: 16\nlocality: nod\ndevcies: 4",
            "3: memory: '16' has no unit; write for example 24GB or 512MiB (and 2 more)",
        ),
        ("command: b", "2: command: is given twice (first on line 1)"),
    ],
)
def test_plain_fields(tmp_path: Path, fields: str, message: str) -> None:
    assert error_of(tmp_path, f"command: a\n{fields}\n") == f"j.yaml:{message}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("devices: V100", "2: devices: 'V100' has no count; write for example V100:4 or 1..8"),
        ("devices: true", "2: devices: 'true' has no count; write for example V100:4 or 1..8"),
        ("devices: .inf", "2: devices: '.inf' is not a count; write for example 4 or 1..8"),
        ("devices: 8..1", "2: devices: '8..1' runs backwards (did you mean '1..8'?)"),
        ("devices: 0..8", "2: devices: must start at 1; write for example 1..8"),
        ("devices: -1", "2: devices: '-1' is not a count; write for example 4 or 1..8"),
        ("devices: [1]", "2: devices: must be one value, not a list"),
        (
            "devices: 0",
            "2: devices: a task without devices needs cores or memory, for example cores: 4",
        ),
        ("memory: 64KB", "2: memory: no process starts with less than 1MB; write for example 2GB"),
        ("gang: 0", "2: gang: must be at least 1, not 0"),
        ("devices: 2..8\ngang: 3", "3: gang: must be at most the least count, 2, not 3"),
        ("any_of: V100", "2: any_of: must be a list"),
        ("any_of: []", "2: any_of: must name at least one device type; remove it to allow any"),
        ("any_of: [V100, V100]", "2: any_of[1]: 'V100' is given twice"),
        (
            "devices: V100:4\nany_of: [V100, P100]",
            "3: any_of: contradicts V100 given with devices; keep one of them",
        ),
        (
            "devices: 0\ncores: 1\nany_of: [V100]",
            "4: any_of: needs a job with devices",
        ),
    ],
)
def test_devices(tmp_path: Path, fields: str, message: str) -> None:
    assert error_of(tmp_path, f"command: a\n{fields}\n") == f"j.yaml:{message}"


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("{}", "3: roles.worker: is missing; write for example {count: 2..8}"),
        ("\n  workers: {}", "4: roles.workers: unknown field (did you mean 'worker'?) (and 1 more)"),
        ("{worker: 3}", "3: roles.worker: must be a mapping of fields to values"),
        (
            "{worker: {devices: 0}}",
            "3: roles.worker: a task without devices needs cores or memory, for example cores: 4",
        ),
        (
            "\n  worker: {}\n  server: {count: 2}",
            "5: roles.server: a task without devices needs cores or memory, for example cores: 4",
        ),
        (
            "{worker: {devices: 1..2}}",
            "3: roles.worker.devices: must be one number; for a range of tasks use count: 1..8",
        ),
        (
            "{worker: {devices: 17}}",
            "3: roles.worker.devices: a task runs on one node, which has at most 16 devices; "
            "write count: 17 and devices: 1",
        ),
        ("{worker: {count: 0}}", "3: roles.worker.count: must start at 1"),
        ("{worker: {count: 0..2}}", "3: roles.worker.count: must start at 1"),
        (
            "{worker: {count: 2..4, gang: 3}}",
            "3: roles.worker.gang: must be at most the least count, 2, not 3",
        ),
        (
            "\n  worker: {devices: V100:1}\n  server: {devices: P100:1}",
            "5: roles.server.devices: names P100, but V100 is named elsewhere; list both under any_of",
        ),
    ],
)
def test_roles(tmp_path: Path, roles: str, message: str) -> None:
    assert error_of(tmp_path, f"command: a\nuser: ada\nroles: {roles}\n") == f"j.yaml:{message}"


@pytest.mark.parametrize("field", ["devices: 1", "gang: 1", "cores: 1", "memory: 1GB"])
def test_the_shorthand_beside_roles(tmp_path: Path, field: str) -> None:
    key = field.partition(":")[0]
    assert error_of(tmp_path, f"command: a\nroles: {{worker: {{}}}}\n{field}\n") == (
        f"j.yaml:3: {key}: conflicts with roles; move it under its role"
    )


def test_the_command_must_be_there(tmp_path: Path) -> None:
    assert error_of(tmp_path, "devices: 4\n") == (
        "j.yaml:1: command: is missing; write for example python train.py"
    )


def test_the_file_name_must_do_where_no_name_is_given(tmp_path: Path) -> None:
    assert error_of(tmp_path, "command: a\n", "my job.yaml") == (
        "my job.yaml:1: name: is missing, and the file's name is not a valid name; "
        "write for example resnet50"
    )
