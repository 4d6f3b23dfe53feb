"""What the environment says, and what it must not say."""

import pytest

from muster.runtime.settings import BadSettingError, TaskSettings, from_environment


def test_nothing_set_is_one_worker_alone() -> None:
    assert from_environment({}) == TaskSettings()
    assert from_environment({"MUSTER_COORDINATOR": "", "MUSTER_THREADS": ""}) == TaskSettings()


def test_all_set() -> None:
    environ = {
        "MUSTER_JOB": "vgg",
        "MUSTER_TASK": "server-2",
        "MUSTER_ROLE": "server",
        "MUSTER_COORDINATOR": "[fe80::1]:7000",
        "MUSTER_TOKEN": "secret",
        "MUSTER_HOST": "10.0.0.7",
        "MUSTER_THREADS": "4",
        "MUSTER_DEVICE": "cuda:1",
        "MUSTER_SAMPLE_SECONDS": "0.25",
        "OTHER": "x",
    }
    expected = TaskSettings(
        "vgg", "server-2", "server", ("fe80::1", 7000), "secret", "10.0.0.7", 4, "cuda:1", 0.25
    )
    assert from_environment(environ) == expected


def test_a_server_without_a_name() -> None:
    assert from_environment({"MUSTER_ROLE": "server"}).task == "server-0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_ROLE", "boss"),
        ("MUSTER_COORDINATOR", "localhost"),
        ("MUSTER_COORDINATOR", "localhost:http"),
        ("MUSTER_COORDINATOR", "localhost:70000"),
        ("MUSTER_COORDINATOR", "::1:80"),
        ("MUSTER_COORDINATOR", ":80"),
        ("MUSTER_THREADS", "many"),
        ("MUSTER_THREADS", "-1"),
        ("MUSTER_DEVICE", "cuda:"),
        ("MUSTER_DEVICE", "tpu"),
        ("MUSTER_DEVICE", "cuda:x"),
        ("MUSTER_SAMPLE_SECONDS", "fast"),
        ("MUSTER_SAMPLE_SECONDS", "-1"),
        ("MUSTER_SAMPLE_SECONDS", "nan"),
    ],
)
def test_a_bad_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(BadSettingError, match=name):
        from_environment({name: value})
