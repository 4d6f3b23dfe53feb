"""`muster plan`: the plan, its step, why, the runner-up and the tasks; and what cannot be planned."""

import json
import re
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from muster.cli.offline.plan import run_plan
from muster.files import shipped_profile
from muster.files.errors import InputError
from tests.unit.cli.invoke import invoke

EXAMPLES = Path(__file__).parents[3] / "examples"
DIKE = EXAMPLES / "clusters/dike-30.yaml"
LAB = EXAMPLES / "clusters/lab.yaml"
RESNET = EXAMPLES / "plans/resnet50.yaml"
VGG = EXAMPLES / "plans/vgg16.yaml"
GPT = EXAMPLES / "plans/gpt2-small.yaml"


def printed(*arguments: str | Path) -> str:
    """What the command prints."""
    result = invoke(["plan", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def planned(cluster: Path, job: Path, devices: int | None = None, aim: str = "throughput") -> Any:
    """The plan as data."""
    return json.loads(run_plan(cluster, job, devices=devices, aim=aim, as_json=True))


def refused(cluster: Path, job: Path) -> str:
    """The one line that says why there is no plan."""
    with pytest.raises(InputError) as caught:
        run_plan(cluster, job, devices=None, aim="throughput", as_json=False)
    text = str(caught.value)
    assert "\n" not in text
    return text


def written(folder: Path, text: str) -> Path:
    """A job file of this text."""
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_it_tells_plan_step_epoch_why_the_next_and_every_task() -> None:
    text = printed(DIKE, RESNET, "-d", "8")
    heading, blank, *told = text.splitlines()
    assert heading == "resnet50: resnet50, 512 samples per step, at most 8 devices of dike-30"
    assert blank == ""
    words = [line.split()[0] for line in told if re.match(r"  \w", line)]
    assert words == ["plan", "step", "epoch", "why", "next", "search"]
    rows = told[told.index("") + 1 :]
    assert rows[0].split() == ["ROLE", "TASKS", "DEVICES", "SAMPLES", "OWNS", "ON", "NODES"]
    assert {row.split()[0] for row in rows[1:]} <= {"worker", "server"}


def test_the_step_has_an_interval_around_it_and_agrees_with_the_rate() -> None:
    step = next(line for line in printed(DIKE, VGG, "-d", "8").splitlines() if "  step " in line)
    found = re.fullmatch(
        r"  step     (\S+ m?s) \((\S+ m?s) to (\S+ m?s), 80% interval\), ([\d,]+) samples/s",
        step,
    )
    assert found is not None, step
    mean, low, high = (_seconds(found[i]) for i in (1, 2, 3))
    assert low < mean < high
    assert 512 / mean == pytest.approx(float(found[4].replace(",", "")), rel=0.01)


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) / (1000 if unit == "ms" else 1)


def test_why_says_what_the_step_is_made_of_and_which_link_bounds_it() -> None:
    text = printed(DIKE, VGG, "-d", "8")
    why = next(line for line in text.splitlines() if line.startswith("  why"))
    assert "computing takes" in why
    assert "transfers" in why
    assert "bounded by the" in why


def test_json_holds_the_same_plan() -> None:
    data = json.loads(printed(DIKE, RESNET, "-d", "8", "-o", "json"))
    assert data["job"] == "resnet50"
    for priced in (data["best"], data["runner_up"]):
        step = priced["step_seconds"]
        assert 0 < step["low"] <= step["mean"] <= step["high"]
        assert priced["samples_per_second"] == pytest.approx(512 / step["mean"])
        assert sum(priced["batch"]) == 512
        assert priced["devices"] <= 8
        workers = [task for task in priced["tasks"] if task["role"] == "worker"]
        assert len(workers) == len(priced["batch"])
        assert sum(task["bits"].bit_count() for task in workers) == priced["devices"]
    assert data["runner_up"]["samples_per_second"] <= data["best"]["samples_per_second"]
    assert data["runner_up"]["sync"] != data["best"]["sync"]


@pytest.mark.parametrize(("cluster", "job"), [(DIKE, RESNET), (DIKE, VGG), (LAB, GPT)])
def test_no_device_is_given_twice(cluster: Path, job: Path) -> None:
    held: dict[str, int] = {}
    for task in planned(cluster, job)["best"]["tasks"]:
        assert held.get(task["node"], 0) & task["bits"] == 0
        held[task["node"]] = held.get(task["node"], 0) | task["bits"]


def test_parameters_that_are_owned_are_owned_as_a_whole() -> None:
    for job in (RESNET, VGG):
        for priced in map(planned(DIKE, job).get, ("best", "runner_up")):
            assert not priced["owners"] or sum(priced["owners"]) == pytest.approx(1.0)


def test_more_devices_are_never_worse() -> None:
    rates = [planned(DIKE, RESNET, n)["best"]["samples_per_second"] for n in (4, 8, 16, 32)]
    # What differs by less than half a per cent is taken for noise by the search.
    for fewer, more in pairwise(rates):
        assert more >= 0.995 * fewer


def test_without_a_number_the_jobs_own_most_holds() -> None:
    assert "at most 42 devices of dike-30" in printed(DIKE, RESNET)


def test_per_device_takes_no_more_devices_and_gets_more_out_of_each() -> None:
    fast, frugal = planned(DIKE, RESNET), planned(DIKE, RESNET, aim="per_device")
    each = [d["best"]["samples_per_second"] / d["best"]["devices"] for d in (fast, frugal)]
    assert each[1] >= each[0]
    assert frugal["best"]["devices"] < fast["best"]["devices"]
    assert printed(DIKE, RESNET, "--aim", "per_device") != printed(DIKE, RESNET)


def test_types_are_mixed_only_where_the_job_allows_it(tmp_path: Path) -> None:
    alike = written(tmp_path, GPT.read_text(encoding="utf-8").replace("same_generation: false\n", ""))
    nodes = {task["node"] for task in planned(LAB, alike)["best"]["tasks"]}
    assert nodes <= {"gpu1", "gpu2", "gpu3"} or nodes == {"gpu4"}
    mixing = planned(LAB, GPT)["best"]["samples_per_second"]
    assert mixing >= planned(LAB, alike)["best"]["samples_per_second"]


def test_a_job_without_a_model_is_told_what_to_write() -> None:
    text = refused(LAB, EXAMPLES / "jobs/01-notebook.yaml")
    assert "01-notebook.yaml" in text
    assert "model: is required" in text
    assert "write for example resnet50" in text


def test_a_model_too_large_for_every_device_is_told_in_one_line(tmp_path: Path) -> None:
    # 6.7e9 parameters: 27 GB of them alone, on devices of 12 GB.
    large = RESNET.read_text(encoding="utf-8").replace("model: resnet50", "model: llama-7b")
    assert shipped_profile("llama-7b").gradients > 12e9
    text = refused(DIKE, written(tmp_path, large))
    assert "mine.yaml: cannot be planned: " in text
    assert "memory" in text


def test_a_batch_too_large_for_memory_is_told(tmp_path: Path) -> None:
    huge = RESNET.read_text(encoding="utf-8").replace("batch: 512", "batch: 1000000")
    assert "memory" in refused(DIKE, written(tmp_path, huge))


def test_fewer_devices_than_the_gang_are_told(tmp_path: Path) -> None:
    gang = written(tmp_path, RESNET.read_text(encoding="utf-8").replace("1..42", "8..42"))
    with pytest.raises(InputError, match=r"cannot be planned: .*8 to 4"):
        run_plan(DIKE, gang, devices=4, aim="throughput", as_json=False)


def test_a_job_that_can_never_run_on_the_cluster_is_refused_before_any_planning() -> None:
    assert "can never run on this cluster: no such pool: 'default'" in refused(LAB, RESNET)


def test_a_job_on_cpus_alone_is_refused_in_one_line(tmp_path: Path) -> None:
    job = """
    command: python train.py
    model: alexnet
    batch: 64
    roles:
      worker: {count: 1..4, devices: 0, cores: 4, memory: 8GB}
    """
    assert "cannot be planned" in refused(DIKE, written(tmp_path, dedent(job)))


def test_servers_a_job_asks_for_are_planned(tmp_path: Path) -> None:
    job = """
    command: python train.py
    model: alexnet
    batch: 100
    roles:
      worker: {count: 2..4, devices: 2, cores: 2, memory: 8GB}
      server: {count: 1..2, cores: 3, memory: 9GB}
    """
    best = planned(DIKE, written(tmp_path, dedent(job)))["best"]
    tasks = [(task["role"], task["bits"].bit_count()) for task in best["tasks"]]
    assert best["sync"] == "dedicated"
    assert 2 <= tasks.count(("worker", 2)) <= 4
    assert 1 <= tasks.count(("server", 0)) <= 2
    assert len(tasks) == tasks.count(("worker", 2)) + tasks.count(("server", 0))


def test_an_aim_that_is_none_is_refused() -> None:
    result = invoke(["plan", str(DIKE), str(RESNET), "--aim", "cheap"])
    assert result.exit_code == 2
    assert "cheap" in result.output


def test_no_devices_at_all_are_refused() -> None:
    assert invoke(["plan", str(DIKE), str(RESNET), "-d", "0"]).exit_code == 2


def test_the_curve_shows_the_speed_by_number_of_devices() -> None:
    text = printed(DIKE, VGG, "--curve")
    rows = [line.split() for line in text.splitlines() if "#" in line]
    speeds = [float(row[2].replace(",", "")) for row in rows]
    assert [int(row[0]) for row in rows] == [4, 8, 16, 32, 42]
    assert speeds == sorted(speeds)
    assert "2: 512 samples of vgg16 do not fit" in text
