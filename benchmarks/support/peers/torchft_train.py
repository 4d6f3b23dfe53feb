"""The same training under torchft, a replica for each worker; with --lighthouse: its lighthouse."""

import argparse
import os
import sys
import threading
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import distributed

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import Marks, losses, make, threads_from_environment

TIMEOUT = timedelta(seconds=30)


def main() -> None:
    """Be what the command line says, until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lighthouse", default="", help="a file for the address of one that is served")
    parser.add_argument("--batch", type=int, default=32, help="of all workers together")
    parser.add_argument("--out", default=".", help="folder of the marks")
    options = parser.parse_args()
    if options.lighthouse:
        serve(options.lighthouse)
    else:
        train(options.out, options.batch)


def serve(path: str) -> None:
    """A lighthouse as it comes."""
    coordination: Any = import_module("torchft.coordination")
    server = coordination.LighthouseServer(bind="127.0.0.1:0", min_replicas=1)
    Path(f"{path}.new").write_text(server.address(), encoding="ascii")
    Path(f"{path}.new").replace(path)
    threading.Event().wait()


def train(out: str, batch: int) -> None:
    """One replica of one worker, as in torchft's own example."""
    torchft: Any = import_module("torchft")
    threads_from_environment()
    name, inner, data = make("wide")
    store: Any = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def load(state: dict[str, Any]) -> None:
        name.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=TIMEOUT), min_replica_size=1, load_state_dict=load,
        state_dict=lambda: {"model": name.state_dict(), "optimizer": inner.state_dict()},
        replica_id=f"worker-{os.getpid()}", store_addr="127.0.0.1", store_port=store.port, rank=0,
        world_size=1, timeout=TIMEOUT, hostname="127.0.0.1",
    )  # fmt: skip
    model, optimizer = torchft.DistributedDataParallel(manager, name), torchft.Optimizer(manager, inner)
    marks = Marks(out, f"replica-{os.getpid()}")
    share = batch
    while True:
        before = manager.current_step()
        optimizer.zero_grad()
        losses(model, *data[:share]).mean().backward()
        optimizer.step()
        if manager.current_step() > before:
            share = batch // max(1, manager.num_participants())
            marks.mark(manager.current_step(), manager.num_participants(), share)


main()
