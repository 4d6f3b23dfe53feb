"""What a pilot asks of Slurm, and its script."""

import subprocess

from muster.providers.slurm.commands import HostFacts
from muster.providers.slurm.options import SlurmOptions
from muster.providers.slurm.script import batch_script, pilot_arguments, share_of

HOSTS = (HostFacts("g1", 64, 512_000, 8, None), HostFacts("g2", 32, 256_000, 8, None))


def test_a_whole_node_is_taken_to_ourselves() -> None:
    share = share_of(SlurmOptions(partition="gpu"), HOSTS)
    assert share.devices == 8
    assert share.arguments == ("--exclusive", "--mem=0", "--gres=gpu:8")
    assert (
        share_of(SlurmOptions(partition="gpu", gres="gpu:h100:8"), HOSTS).arguments[0] == "--exclusive"
    )


def test_a_part_of_the_gpus_comes_with_that_part_of_the_cores_and_the_memory() -> None:
    share = share_of(SlurmOptions(partition="gpu", gres="gpu:2"), HOSTS)
    assert share.devices == 2
    assert share.arguments == ("--gres=gpu:2", "--cpus-per-task=8", "--mem=64000M")


def test_a_node_without_gpus_counts_its_cores() -> None:
    share = share_of(SlurmOptions(partition="cpu"), (HostFacts("c1", 16, 1000, 0, None),))
    assert (share.devices, share.arguments) == (16, ("--exclusive", "--mem=0"))


def test_arguments_name_what_was_given_and_nothing_else() -> None:
    options = SlurmOptions(partition="gpu", time=5430.0, account="a", extra=("--constraint=ib",))
    said = pilot_arguments(options, share_of(options, HOSTS), "muster-1", 120.0)
    assert {"--time=90", "--signal=B:USR1@120", "--no-requeue", "--account=a"} <= set(said)
    assert said[-1] == "--constraint=ib"
    assert not any(each.startswith("--qos") for each in said)


def test_the_script_is_one_that_bash_accepts_whatever_the_token_and_the_paths() -> None:
    text = batch_script(("/a b/python", "-m", "muster.agent"), "mja1.'$(x)", "/log's", 120.0)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
