"""Whatever a file holds, it loads or is refused in one line."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.files import load_cluster, load_job, load_profile
from muster.files.cluster.cluster_entries import ClusterEntry, ConfigurationEntry, NodeEntry, PoolEntry
from muster.files.errors import InputError
from muster.files.job.job_entries import JobEntry, LocalityEntry, RoleEntry
from muster.files.profile.profile_entries import ProfileEntry

quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

WORDS = [
    *["8", "0", "-1", "1..8", "8..1", "V100:4", "1.5", ".nan", ".inf", "true", "~", "9" * 20, "[", "*"],
    *["16GB", "5us", "2h", "5%", "10Gbit/s", "node", "up", "box", "P100", "gpu[1-4]"],
    "",
    "a b",
    "\x00",
]
KEYS = sorted(
    {
        key
        for entry in (ClusterEntry, ConfigurationEntry, NodeEntry, PoolEntry)
        for key in entry.model_fields
    }
    | {key for entry in (JobEntry, RoleEntry, LocalityEntry) for key in entry.model_fields}
    | set(ProfileEntry.model_fields)
    | {"worker", "server", "step", "compute", "gradients", "box", "gpu[1-4]", "P100", "cluster", "a"}
)
scalars = st.sampled_from(WORDS) | st.integers() | st.floats() | st.booleans() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=15,
)
files = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)


def refuse_or_load(path: Path) -> None:
    """Every loader takes the file or says one printable line."""
    for load in (load_cluster, load_job, load_profile):
        try:
            load(path)
        except InputError as error:
            assert str(error).isprintable()


@quick
@given(text=st.text(max_size=200))
@example(text='a: "\\UFFFFFFFF"')
@example(text='command: "\\uD800"')
@example(text="%YAML 9.9\n---\na: b")
@example(text="%TAG ! !\n---\na: !<%zz> b")
@example(text="? ? ? a")
def test_any_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    refuse_or_load(path)


@quick
@given(raw=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(raw)
    refuse_or_load(path)


@quick
@given(text=st.text(alphabet="ab:-[]{},&*!|>'\"#%@`?~ \n\t0189.", max_size=60))
def test_any_punctuation(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    refuse_or_load(path)


@quick
@given(data=files, flow=st.booleans())
def test_any_data_under_the_right_keys(tmp_path: Path, data: object, flow: bool) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(yaml.safe_dump(data, default_flow_style=flow), encoding="utf-8")
    refuse_or_load(path)


@quick
@given(fields=st.dictionaries(st.sampled_from(list(ConfigurationEntry.model_fields)), scalars))
def test_any_configuration_set(tmp_path: Path, fields: dict[str, object]) -> None:
    path = tmp_path / "f.yaml"
    kind = {"device": "P100", "devices": 8, "cores": 4, "memory": "1GB", **fields}
    path.write_text(yaml.safe_dump({"configurations": {"box": kind}, "nodes": {"a": "box"}}))
    refuse_or_load(path)


@quick
@given(devices=st.integers(1, 16), sockets=st.integers(1, 4), switches=st.integers(1, 16))
@pytest.mark.parametrize("group", [2, 3, 4, 8, 16])
def test_any_tree_is_refused_or_nests(
    tmp_path: Path, devices: int, sockets: int, switches: int, group: int
) -> None:
    path = tmp_path / "f.yaml"
    tree = f"devices: {devices}, sockets: {sockets}, switches: {switches}, nvlink: {{group: {group}}}"
    path.write_text(
        f"configurations:\n  box: {{device: P100, cores: 1, memory: 1GB, {tree}}}\nnodes: {{a: box}}\n"
    )
    try:
        layers = load_cluster(path).cluster.configurations["box"].layers
    except InputError:
        return
    assert len(layers) == 4
    for layer in layers:
        assert sum(layer.groups) == (1 << devices) - 1
    for inner, outer in pairwise(layers):
        assert all(any(a & ~b == 0 for b in outer.groups) for a in inner.groups)
        assert inner.level <= outer.level
