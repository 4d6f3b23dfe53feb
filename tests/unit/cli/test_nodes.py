"""`muster node list` and `show`, `muster check --offer`, and nodes in `muster top`."""

import json
import re
import time
from pathlib import Path

from muster.cli.render.live import MOST_NODES, ClusterFrame
from muster.cli.render.node_page import node_page
from muster.cli.render.node_table import node_table
from muster.wire.api.records import NodeHealth, NodeTaskRecord
from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab, a_node
from tests.unit.cli.test_live import drawn, the_line

NOW = time.time()
HEALTH = NodeHealth(
    temperature=64.0,
    slowdown=93.0,
    ecc=1,
    xids=(31,),
    throttled="heat",
    disk_free=1_200 * 10**9,
    memory_free=400 * 10**9,
    load=3.5,
    age=4.0,
)
GONE = a_node(
    "gpu1",
    "....",
    state="lost",
    engine="slurm",
    address="10.0.0.1",
    connected=False,
    why="its agent has been silent for 31 s",
    since=NOW - 90.5,
)
WELL = a_node(
    "gpu2",
    "xx..",
    device_type="H100",
    engine="ray",
    address="10.0.0.2",
    interface="ib0",
    ports=(20000, 31999),
    connected=True,
    health=HEALTH,
    rack="r7",
    domain="d0",
    configuration="4xH100-3f29c1",
    labels={"zone": "a"},
    user="slurm",
    tasks=(NodeTaskRecord(12, "resnet50", "worker-0", (0, 1)),),
)


def cells(text: str, node: str) -> list[str]:
    return the_line(text.splitlines(), node).split()


def test_a_list_says_who_brought_a_node_where_it_is_and_why_it_is_out() -> None:
    shown = node_table([GONE, WELL])
    heading = " ".join(shown.splitlines()[0].split())
    assert heading == "NODE STATE ENGINE ADDRESS TYPE DEVICES FREE MAP HEALTH JOBS WHY"
    assert cells(shown, "gpu2")[2:4] == ["ray", "10.0.0.2"]
    assert " ok " in the_line(shown.splitlines(), "gpu2")
    gone = the_line(shown.splitlines(), "gpu1")
    assert " no agent " in gone
    assert re.search(r"its agent has been silent for 31 s \(.+ ago\)$", gone)


def test_without_agents_a_list_is_as_short_as_ever() -> None:
    shown = node_table([a_node()])
    assert shown.splitlines()[0].split() == ["NODE", "STATE", "TYPE", "DEVICES", "FREE", "MAP", "JOBS"]


def test_a_wide_list_has_temperature_load_and_disk() -> None:
    shown = node_table([GONE, WELL], wide=True)
    assert "64 °C" in shown
    assert "1,200.0 GB" in shown
    assert "r7" in shown


def test_a_node_that_is_not_well_but_in_use_says_so() -> None:
    bad = a_node("gpu3", connected=True, trouble="device 0 has 1 uncorrected memory error")
    line = the_line(node_table([bad]).splitlines(), "gpu3")
    assert " bad " in line
    assert line.endswith("device 0 has 1 uncorrected memory error")


def test_a_page_has_everything_that_is_known_of_a_node() -> None:
    page = node_page(WELL, NOW)
    for text in (
        "4xH100-3f29c1 in rack r7, domain d0",
        "connected, brought by ray",
        "10.0.0.2 (ib0), ports 20000-31999",
        "zone=a",
        "400.0 GB free",
        "1,200.0 GB free",
        "3.5, measured",
        "resnet50",
        "worker-0",
        "64 °C, slows down at 93 °C",
        "1 uncorrected memory error, Xid 31",
        "lowered by heat",
    ):
        assert text in page, text
    assert "its agent has been silent" in node_page(GONE, NOW)


def test_show_asks_the_daemon_for_one_node(lab: Lab) -> None:
    lab.service.node_records["gpu2"] = WELL
    assert "4xH100-3f29c1" in muster("node", "show", "gpu2").stdout
    assert lab.requests[-1][:2] == ("GET", "/v1/nodes/gpu2")
    record = json.loads(muster("node", "show", "gpu2", "-o", "json").stdout)
    assert record["health"]["temperature"] == 64
    assert record["tasks"][0]["devices"] == [0, 1]
    assert "no node named 'gpu9'" in muster("node", "show", "gpu9", code=102).stderr


def test_top_shows_the_nodes_that_are_out_even_of_a_large_cluster(lab: Lab) -> None:
    nodes = [a_node(f"n{i}", "....", engine="ray") for i in range(MOST_NODES + 4)]
    lines = drawn(ClusterFrame(lab.client().status(), nodes=[*nodes, GONE]))
    assert "its agent has been silent for 31 s" in the_line(lines, "gpu1")
    assert the_line(lines, "and 5 more")
    assert "ENGINE" in the_line(lines, "NODE")


# --- muster check --offer ---

OFFER = {
    "name": "gpu0712",
    "millicores": 40_000,
    "memory": 512 * 10**9,
    "devices": 8,
    "device_type": "P100",
    "engine": "slurm",
}
OPEN = Path(__file__).parents[3] / "examples/clusters/open.yaml"


def test_check_says_what_a_node_would_count_as(tmp_path: Path) -> None:
    path = tmp_path / "offer.json"
    path.write_text(json.dumps(OFFER))
    assert muster("check", OPEN, "--offer", path).stdout.splitlines()[-1] == (
        "gpu0712: dgx1 (8 P100, 40 cores, 512 GB), rack r07, domain d0: rule 1"
    )
    unmatched = json.dumps(OFFER | {"name": "odd", "device_type": "H100", "engine": "machines"})
    line = muster("check", OPEN, "--offer", "-", input=unmatched).stdout.splitlines()[-1]
    assert line.startswith("odd: 8xH100-")
    assert line.endswith("rack r0, domain d0: no rule: its hardware")
