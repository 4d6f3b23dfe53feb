"""Profile files: what loads, what is refused, and how a job names one."""

from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.files import load_job, load_profile, shipped_profile
from muster.files.errors import InputError
from muster.files.profile.profile_file import profile_schema, profile_text
from muster.model.profile import LayerType, ModelProfile, Tensor

FIELDS = {
    "operations": "8.2G",
    "activations": "82MiB",
    "layers": "{convolution: 0.99, dense: 0.01}",
    "samples": "1281167",
    "sample_bytes": "602112B",
    "batch": "64",
    "tensors": "[[fc.weight, 8MB, 0.25], [conv.weight, 2MB, 1]]",
}


def written(folder: Path, *, without: str = "", **fields: str) -> Path:
    """A profile file with some fields changed, one line each, in the order above."""
    lines = {key: value for key, value in (FIELDS | fields).items() if key != without}
    path = folder / "mine.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return path


def error_of(path: Path) -> str:
    """The line of a refused profile file, without its directory."""
    with pytest.raises(InputError) as caught:
        load_profile(path)
    line = str(caught.value).removeprefix(f"{path.parent}/")
    assert line.isprintable()
    return line


def test_a_file_becomes_a_profile(tmp_path: Path) -> None:
    assert load_profile(written(tmp_path)) == ModelProfile(
        name="mine",
        tensors=(Tensor("fc.weight", 8_000_000, 0.25), Tensor("conv.weight", 2_000_000, 1.0)),
        operations=8.2e9,
        activations=82 * 2**20,
        layers=((LayerType.CONVOLUTION, 0.99), (LayerType.DENSE, 0.01)),
        samples=1_281_167,
        sample_bytes=602_112,
        batch=64,
        state=4,
        parameter_bytes=4,
    )


@pytest.mark.parametrize(
    ("text", "operations"), [("1500", 1500.0), ("2.5K", 2500.0), ("120M", 1.2e8), ("29.3T", 2.93e13)]
)
def test_operations_are_a_number_or_have_a_suffix(tmp_path: Path, text: str, operations: float) -> None:
    assert load_profile(written(tmp_path, operations=text)).operations == operations


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        (
            "operations",
            "8.2GFLOP",
            "mine.yaml:1: operations: '8.2GFLOP' is not a number of operations; "
            "write for example 8.2G or 120M (did you mean '8.2G'?)",
        ),
        (
            "operations",
            "0",
            "mine.yaml:1: operations: '0' is out of range; write for example 8.2G",
        ),
        (
            "activations",
            "82",
            "mine.yaml:2: activations: '82' has no unit; write for example 24GB or 512MiB",
        ),
        (
            "layers",
            "{convolutoin: 1}",
            "mine.yaml:3: layers.convolutoin: 'convolutoin' is not a layer type "
            "(did you mean 'convolution'?)",
        ),
        (
            "layers",
            "{convolution: 0.5, dense: 0.4}",
            "mine.yaml:3: layers: the shares add up to 0.9, not 1",
        ),
        ("layers", "{}", "mine.yaml:3: layers: the shares add up to 0, not 1"),
        ("samples", "0", "mine.yaml:4: samples: must be at least 1, not 0"),
        ("sample_bytes", "0B", "mine.yaml:5: sample_bytes: must be above 0, not '0B'"),
        ("batch", "many", "mine.yaml:6: batch: 'many' is not a whole number; write for example 4"),
        ("tensors", "[]", "mine.yaml:7: tensors: must name at least one tensor"),
        (
            "tensors",
            "[[fc.weight, 8MB]]",
            "mine.yaml:7: tensors[0]: must be name, bytes and ready, "
            "for example [fc.weight, 8192000B, 0.004]",
        ),
        ("tensors", "[[a, 0B, 1]]", "mine.yaml:7: tensors[0]: bytes must be above 0, not '0B'"),
        (
            "tensors",
            "[[a, 1B, 0]]",
            "mine.yaml:7: tensors[0]: '0' is not above 0 and at most 1; write for example 0.25",
        ),
        (
            "tensors",
            "[[a, 1B, 1.1]]",
            "mine.yaml:7: tensors[0]: '1.1' is not above 0 and at most 1; write for example 0.25",
        ),
        (
            "tensors",
            "[[a b, 1B, 1]]",
            "mine.yaml:7: tensors[0]: 'a b' is not a tensor's name; write for example fc.weight",
        ),
        ("tensors", "[[a, 1B, 1], [a, 2B, 1]]", "mine.yaml:7: tensors[1]: 'a' is given twice"),
        (
            "tensors",
            "[[a, 1B, 0.5], [b, 2B, 0.4]]",
            "mine.yaml:7: tensors[1]: is ready at 0.4, before 'a' at 0.5; "
            "list them in the order they are ready",
        ),
        (
            "parameter_byts",
            "2",
            "mine.yaml:8: parameter_byts: unknown field (did you mean 'parameter_bytes'?)",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, field: str, text: str, message: str) -> None:
    assert error_of(written(tmp_path, **{field: text})) == message


def test_a_missing_field_is_told_with_an_example(tmp_path: Path) -> None:
    line = error_of(written(tmp_path, without="operations"))
    assert line == "mine.yaml:1: operations: is missing; write for example 8.2G"


def test_an_error_names_the_line_of_its_tensor(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    text = profile_text(shipped_profile("resnet50")).replace(
        "conv1.weight, 37632B", "conv1.weight, 37632"
    )
    path.write_text(text)
    line = text[: text.index("[conv1.weight")].count("\n") + 1
    assert error_of(path).startswith(f"long.yaml:{line}: tensors[160]: '37632' has no unit")


@pytest.mark.parametrize("name", ["resnet50", "gpt2-small"])
def test_the_schema_takes_what_the_loader_takes(name: str) -> None:
    schema = profile_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    data = yaml.safe_load(profile_text(shipped_profile(name)))
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data | {"layers": {"convolutoin": 1}}, schema)
    for example in schema["examples"]:
        jsonschema.validate(example, schema)


parts = st.integers(1, 10**9).map(lambda billionths: billionths / 10**9)
names = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)


@st.composite
def profiles(draw: st.DrawFn) -> ModelProfile:
    """Any profile a file can hold."""
    named = draw(st.lists(names | st.sampled_from(["null", "~", "a:"]), min_size=1, unique=True))
    ready = sorted(draw(st.lists(parts, min_size=len(named), max_size=len(named))))
    size = st.integers(1, 10**15 - 1)
    return ModelProfile(
        name="any",
        tensors=tuple(Tensor(n, draw(size), r) for n, r in zip(named, ready, strict=True)),
        operations=float(draw(st.integers(1, 10**12))),
        activations=draw(size),
        layers=((LayerType.DENSE, 1.0),),
        samples=draw(st.integers(1, 10**12)),
        sample_bytes=draw(size),
        batch=draw(st.integers(1, 1000)),
        state=draw(st.integers(0, 16)),
        parameter_bytes=draw(st.integers(1, 8)),
    )


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(profile=profiles())
def test_what_is_written_is_read_back(tmp_path: Path, profile: ModelProfile) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(profile_text(profile), encoding="utf-8")
    assert load_profile(path) == profile


def job(folder: Path, *lines: str) -> Path:
    """A job file with these lines below its command."""
    path = folder / "job.yaml"
    path.write_text("\n".join(["command: python train.py", *lines, ""]))
    return path


def refusal(path: Path) -> str:
    """The line of a refused job file, without its directory."""
    with pytest.raises(InputError) as caught:
        load_job(path)
    return str(caught.value).removeprefix(f"{path.parent}/")


def test_a_job_names_a_shipped_model_and_its_batch(tmp_path: Path) -> None:
    loaded = load_job(job(tmp_path, "model: resnet50", "batch: 256"))
    assert loaded.model == shipped_profile("resnet50")
    assert loaded.batch == 256


def test_a_job_without_a_model_has_none(tmp_path: Path) -> None:
    loaded = load_job(job(tmp_path, "step: {compute: 250ms, gradients: 100MB}"))
    assert (loaded.model, loaded.batch) == (None, None)
    assert loaded.profile is not None


@pytest.mark.parametrize("named", ["mine.yaml", "./mine.yaml", "../{folder}/mine.yaml"])
def test_a_path_is_taken_from_the_folder_of_the_job_file(tmp_path: Path, named: str) -> None:
    written(tmp_path)
    loaded = load_job(job(tmp_path, f"model: {named.format(folder=tmp_path.name)}"))
    assert loaded.model is not None
    assert loaded.model.name == "mine"


def test_an_unknown_model_is_told_with_the_nearest_and_all(tmp_path: Path) -> None:
    line = refusal(job(tmp_path, "model: resnet-50"))
    assert line.startswith("job.yaml:2: model: 'resnet-50' is not a model (did you mean 'resnet50'?)")
    assert "alexnet, gpt2-small, inception3, llama-7b, lstm6, resnet152, resnet50, vgg16" in line


@pytest.mark.parametrize("named", ["other.yaml", f"/{'x' * 5000}.yaml"])
def test_a_profile_file_that_is_not_there_is_told_of_the_job(tmp_path: Path, named: str) -> None:
    assert refusal(job(tmp_path, f"model: {named}")).startswith("job.yaml:2: model: no such file: ")


def test_what_is_wrong_in_a_profile_file_is_told_of_that_file(tmp_path: Path) -> None:
    written(tmp_path, batch="0")
    assert refusal(job(tmp_path, "model: mine.yaml")) == "mine.yaml:6: batch: must be at least 1, not 0"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("batch: 0",), "job.yaml:2: batch: must be at least 1, not 0"),
        (
            ("devices: 8", "batch: 4"),
            "job.yaml:3: batch: must be at least the gang, 8, not 4: every worker needs a sample",
        ),
    ],
)
def test_a_batch_gives_every_worker_of_the_gang_a_sample(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    assert refusal(job(tmp_path, *lines)) == message
