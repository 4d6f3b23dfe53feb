"""The profiles that come with Muster: published figures of the models, and that no file is stale."""

from pathlib import Path

import pytest
from tools.profiles.__main__ import FOLDER, main

from muster.files import shipped_profile
from muster.files.profile.profile_file import shipped_profiles
from muster.model.profile import LayerType

PARAMETERS = {
    "alexnet": 61_100_840,
    "gpt2-small": 124_439_808,
    "inception3": 23_834_568,  # 27,161,264 with the auxiliary head
    "llama-7b": 6_738_415_616,
    "lstm6": 138_082_000,  # 2 x 10,000 x 1500 + 10,000 + 6 x (8 x 1500 x 1500 + 8 x 1500)
    "resnet152": 60_192_808,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
}


def test_these_are_shipped() -> None:
    assert shipped_profiles() == tuple(sorted(PARAMETERS))


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_parameters_are_as_published(name: str) -> None:
    assert shipped_profile(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("alexnet", 1.43e9),
        ("gpt2-small", 292e9),
        ("inception3", 11.43e9),
        ("resnet152", 23.0e9),
        ("resnet50", 8.18e9),
        ("vgg16", 30.9e9),
    ],
)
def test_forward_operations_are_as_published(name: str, operations: float) -> None:
    assert shipped_profile(name).operations == pytest.approx(operations, rel=0.01)


def test_resnet50_has_its_tensors_and_activations() -> None:
    profile = shipped_profile("resnet50")
    assert len(profile.tensors) == 161
    assert profile.activations == pytest.approx(82 * 2**20, rel=0.01)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_a_profile_bears_its_files_name_and_ends_with_the_backward_pass(name: str) -> None:
    profile = shipped_profile(name)
    assert profile.name == name
    assert profile.tensors[-1].ready == 1
    assert sum(share for _, share in profile.layers) == pytest.approx(1)
    assert (FOLDER / f"{name}.yaml").stat().st_size < 100_000


def test_tied_weights_are_ready_only_at_the_very_end() -> None:
    last = shipped_profile("gpt2-small").tensors[-1]
    assert (last.name, last.ready) == ("wte.weight", 1)


def test_untied_weights_of_the_decoder_are_ready_first() -> None:
    first = shipped_profile("llama-7b").tensors[0]
    assert first.name == "output.weight"
    assert first.ready < 0.05


def test_half_of_resnet50_is_convolutions_of_1x1() -> None:
    shares = dict(shipped_profile("resnet50").layers)
    assert shares[LayerType.POINTWISE] == pytest.approx(0.52, abs=0.02)


def test_a_recurrent_model_computes_in_its_recurrent_layers() -> None:
    assert dict(shipped_profile("lstm6").layers)[LayerType.RECURRENT] > 0.8


def test_no_shipped_file_is_stale() -> None:
    assert main(["--check"]) == 0, "run `python -m tools.profiles`"


def test_a_stale_file_is_found_and_renewed(tmp_path: Path) -> None:
    assert main([], tmp_path) == 0
    good = (tmp_path / "vgg16.yaml").read_text()
    (tmp_path / "vgg16.yaml").write_text(good.replace("batch: 64", "batch: 32"))
    (tmp_path / "old.yaml").write_text(good)
    assert main(["--check"], tmp_path) == 1
    assert (tmp_path / "old.yaml").exists()
    assert main([], tmp_path) == 0
    assert (tmp_path / "vgg16.yaml").read_text() == good
    assert not (tmp_path / "old.yaml").exists()
