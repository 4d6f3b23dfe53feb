"""A captured training becomes a profile, and a profile a plan."""

import json
from typing import Any

import pytest
from tools.profiles.captured import profile_of

from muster.files.profile.profile_file import load_profile, profile_text
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.profile import LayerType, Tensor
from muster.perf.predict import Predictor
from muster.planner.choose import Chosen, Planner
from tests.builders import mixed, node_set


def parameter(name: str, count: int, ready: float, size: int = 4) -> dict[str, Any]:
    return {"name": name, "count": count, "bytes": size * count, "type": "float32", "ready": ready}


SHAPE: dict[str, Any] = {
    "parameters": [
        parameter("head.weight", 1_000, 0.25),
        parameter("body.weight", 9_000, 1.0),
        parameter("frozen.weight", 500, 0.0),
    ],
    "layers": [["Conv2d", 1], ["Linear", 2]],
    "kinds": [["convolution", 0.75], ["dense", 0.25]],
    "operations": 4e9,
    "activations": 6_000_000,
    "samples": 60_000,
    "sample_bytes": 3_136,
    "how": "meta",
    "why": "",
}


def test_every_field_goes_where_the_planner_looks_for_it() -> None:
    found = profile_of(json.loads(json.dumps(SHAPE)), "mine", 32)
    # A frozen weight has no gradient and is not synchronised.
    assert found.tensors == (Tensor("head.weight", 4_000, 0.25), Tensor("body.weight", 36_000, 1.0))
    assert (found.name, found.batch, found.samples, found.sample_bytes) == ("mine", 32, 60_000, 3_136)
    assert (found.operations, found.activations) == (4e9, 6_000_000)
    assert found.layers == ((LayerType.CONVOLUTION, 0.75), (LayerType.DENSE, 0.25))
    assert (found.parameters, found.parameter_bytes, found.state) == (10_000, 4, 4)


def test_half_precision_has_two_bytes_a_parameter() -> None:
    found = profile_of(SHAPE | {"parameters": [parameter("w", 100, 1.0, size=2)]}, "half", 8, state=8)
    assert (found.parameter_bytes, found.parameters, found.state) == (2, 100, 8)


def test_a_model_known_by_its_parameters_alone_is_a_profile_too() -> None:
    unknown = {"operations": 0.0, "activations": 0, "kinds": []}
    found = profile_of(SHAPE | unknown, "thin", 8)
    assert found.layers == ((LayerType.OTHER, 1.0),)
    assert found.activations == 3_136


@pytest.mark.parametrize("shape", [SHAPE, SHAPE | {"operations": 0.0, "activations": 0, "kinds": []}])
def test_a_captured_model_gets_a_plan(shape: dict[str, Any]) -> None:
    spec = RoleSpec(Role.WORKER, Need(1, 1_000), 1, 1, 8)
    job = Job("j", roles=(spec,), model=profile_of(shape, "mine", 32), batch=256)
    on = mixed((2, node_set("gpu", devices=4)))
    found = Planner(Predictor(on)).choose(job, ("gpu",), 8)
    assert isinstance(found, Chosen)
    assert 1 <= found.best.candidate.plan.devices <= 8


def test_it_can_be_written_as_a_profile_file(tmp_path: Any) -> None:
    found = profile_of(SHAPE, "mine", 32)
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(found), encoding="utf-8")
    assert load_profile(path) == found
