"""The example files load, keep to the published schemas, and are what they say they are."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from muster.files import load_cluster, load_job
from muster.files.cluster.cluster_file import cluster_schema
from muster.files.job.job_file import job_schema
from muster.files.source.validation import schema_text
from muster.model.job import Job
from muster.model.topology import Level

ROOT = Path(__file__).parents[3]
CLUSTERS = sorted((ROOT / "examples/clusters").glob("*.yaml"))
JOBS = sorted((ROOT / "examples/jobs").glob("*.yaml"))
SCHEMAS = ROOT / "docs/schema"


def validate(example: object, schema: dict[str, Any]) -> None:
    """Hold an example against a schema, which one test alone checks: that takes longer."""
    jsonschema.Draft202012Validator(schema).validate(example)


@pytest.mark.parametrize(("name", "schema"), [("cluster", cluster_schema()), ("job", job_schema())])
def test_the_published_schema_is_the_one_in_use(name: str, schema: dict[str, Any]) -> None:
    published = (SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(schema)
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize("schema", [cluster_schema(), job_schema()])
def test_every_field_is_described_and_examples_hold(schema: dict[str, Any]) -> None:
    for part in (schema, *schema["$defs"].values()):
        assert part["description"]
        for name, field in part["properties"].items():
            assert field.get("description"), name
            for example in field.get("examples", ()):
                validate(example, {**field, "$defs": schema["$defs"]})
    for example in schema["examples"]:
        validate(example, schema)


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_cluster_examples(path: Path) -> None:
    validate(yaml.safe_load(path.read_text()), cluster_schema())
    assert load_cluster(path).cluster.name == path.stem


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_job_examples(path: Path) -> None:
    validate(yaml.safe_load(path.read_text()), job_schema())
    job = load_job(path)
    assert job.name == path.stem
    assert job.duration is not None
    assert 5 * 60 <= job.duration <= 3 * 3600


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ({"command": "a", "devcies": 4}, "job"),
        ({"devices": 4}, "job"),
        ({"command": "a", "memory": 16}, "job"),
        ({"command": "a", "pool": None}, "job"),
        ({"configurations": {}}, "cluster"),
    ],
)
def test_the_schemas_refuse_what_the_loader_refuses(text: dict[str, Any], kind: str) -> None:
    schema = job_schema() if kind == "job" else cluster_schema()
    with pytest.raises(jsonschema.ValidationError):
        validate(text, schema)


@pytest.mark.parametrize(
    ("name", "nodes", "devices"),
    [
        ("xiao-p100", 4, {"P100": 32}),
        ("one-type-64x8", 64, {"V100": 512}),
        ("dike-30", 30, {"K80": 42}),
        ("optimus-13", 13, {"GPU": 12}),
        ("lab", 4, {"P100": 24, "V100": 4}),
    ],
)
def test_the_clusters_are_as_large_as_they_say(name: str, nodes: int, devices: dict[str, int]) -> None:
    cluster = load_cluster(ROOT / f"examples/clusters/{name}.yaml").cluster
    assert len(cluster.nodes) == nodes
    assert cluster.devices_by_type() == devices


def test_xiaos_figure_2a() -> None:
    cluster = load_cluster(ROOT / "examples/clusters/xiao-p100.yaml").cluster
    layers = cluster.configurations["p100-server"].layers
    assert [(layer.level, layer.groups) for layer in layers] == [
        (Level.SWITCH, (0x03, 0x0C, 0x30, 0xC0)),
        (Level.SOCKET, (0x0F, 0xF0)),
        (Level.SOCKET, (0x0F, 0xF0)),
        (Level.NODE, (0xFF,)),
    ]


def test_the_jobs_ask_for_more_than_the_lab_has() -> None:
    file = load_cluster(ROOT / "examples/clusters/lab.yaml")
    jobs = [load_job(path) for path in JOBS]
    assert len(jobs) == 12
    assert {job.pool for job in jobs} == set(file.pools.leaves())
    assert sum(_gang_devices(job) for job in jobs) > 24 + 4


def test_each_job_fits_the_pools_of_the_lab() -> None:
    file = load_cluster(ROOT / "examples/clusters/lab.yaml")
    for path in JOBS:
        job = load_job(path)
        for kind in job.device_types[:1]:
            quota = file.pools.pools[job.pool].quota(kind)
            assert quota.limit is None or _gang_devices(job) <= quota.limit
            assert job.preemptible or _gang_devices(job) <= quota.reservation


def _gang_devices(job: Job) -> int:
    return sum(spec.gang * spec.need.devices for spec in job.roles)
