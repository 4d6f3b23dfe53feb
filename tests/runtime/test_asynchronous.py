"""Asynchronous training: servers that apply at once, workers that come, go and die."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from muster.runtime.asynchronous.batches import LeasedBatches
from muster.runtime.asynchronous.protocol import KIND, assign, checksum
from muster.runtime.asynchronous.server import ParameterServer, Shard, serve
from muster.runtime.asynchronous.task import train_asynchronously
from muster.runtime.asynchronous.worker import AsyncReport
from muster.runtime.comm.stream import receive_json, send_json
from muster.runtime.data.samples import Order, Position
from muster.runtime.errors import BadTrainingError, LostServerError
from muster.runtime.members.peers import PeerServer, connect
from muster.runtime.shards.ownership import Range
from muster.runtime.state.checkpoint import Checkpoints, signature_of
from muster.runtime.state.state import TrainingState

COUNT, FEATURES = 60, 6
LIMIT = 180.0
"""Seconds after which something hangs, on a machine that does ten other things."""


def data() -> TensorDataset:
    """Numbers without noise: the best loss is 0. The third tensor tells samples apart."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(COUNT, FEATURES, generator=generator)
    return TensorDataset(x, x @ torch.arange(1.0, FEATURES + 1) + 2, torch.arange(COUNT))


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, 1)


def forward(model: Any, batch: Any) -> Tensor:
    x, y, _ = batch
    return (model(x).squeeze(1) - y) ** 2


def sgd(model: nn.Module) -> Any:
    return optim.SGD(model.parameters(), lr=0.02, momentum=0.5, weight_decay=0.001)


def plain(
    model: nn.Module,
    optimizer: Any,
    epochs: int,
    batch: int,
    scheduler: Any = None,
    losses: Any = forward,
) -> None:
    """Single-process training over the same order of samples."""
    order, dataset, at = Order(COUNT, batch, 0), data(), Position()
    while at.epoch < epochs:
        optimizer.zero_grad()
        losses(model, dataset[order.ids(at)]).mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        at = order.after(at)


class Servers:
    """Servers in threads of this process, each with a model of its own."""

    def __init__(self, count: int, optimiser: Callable[[nn.Module], Any] = sgd, **options: Any) -> None:
        self.peer_servers = [PeerServer("127.0.0.1", "secret") for _ in range(count)]
        self.addresses = [peers.address for peers in self.peer_servers]
        self.results: list[Any] = [None] * count
        self.threads = []
        model_of = options.pop("model", made)
        schedule = options.pop("schedule", lambda _: None)
        restore = options.pop("restore", lambda model, optimizer: None)
        for index, peers in enumerate(self.peer_servers):
            model = model_of()
            optimizer = optimiser(model)
            restore(model, optimizer)
            call = {"index": index, "peers": peers, "token": "secret", "scheduler": schedule(optimizer)}
            self.threads.append(
                threading.Thread(
                    target=self._serve, args=(index, model, optimizer, {**options, **call}), daemon=True
                )
            )
            peers.start()
            self.threads[-1].start()

    def _serve(self, index: int, model: Any, optimizer: Any, options: Any) -> None:
        try:
            self.results[index] = train_asynchronously(
                model, optimizer, forward, data(), 10, 3, "server", self.addresses, **options
            )
        except Exception as problem:
            self.results[index] = problem

    def end(self) -> list[Any]:
        for thread in self.threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
        for peers in self.peer_servers:
            peers.close()
        return self.results


def work(servers: Servers, model: nn.Module, optimizer: Any, **options: Any) -> AsyncReport:
    report = train_asynchronously(
        model, optimizer, forward, data(), 10, 3, "worker", servers.addresses, token="secret", **options
    )
    assert isinstance(report, AsyncReport)
    return report


def close(one: nn.Module, other: nn.Module) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


# one worker: plain training


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("optimiser", [sgd, lambda model: optim.Adam(model.parameters(), lr=0.05)])
def test_one_worker_is_plain_training(count: int, optimiser: Callable[[nn.Module], Any]) -> None:
    servers = Servers(count, optimiser)
    mine, other = made(), made()
    report = work(servers, mine, optimiser(mine))
    leases = servers.end()[0]
    plain(other, optimiser(other), epochs=3, batch=10)
    close(mine, other)
    assert (report.updates, report.samples, report.stalest, report.staleness) == (18, 180, 0, 0)
    assert (leases.done, leases.repeated, len(leases.losses)) == (18, 0, 3)
    assert leases.losses[2] < leases.losses[0]


def test_a_schedule_steps_with_every_update() -> None:
    def schedule(optimizer: Any) -> Any:
        return optim.lr_scheduler.StepLR(optimizer, 5, 0.5)

    servers = Servers(2, schedule=schedule)
    mine, other = made(), made()
    work(servers, mine, sgd(mine))
    servers.end()
    optimizer = sgd(other)
    plain(other, optimizer, epochs=3, batch=10, scheduler=schedule(optimizer))
    close(mine, other)


class Spare(nn.Module):
    """A model with a parameter that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.spare = made(), nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x)


def test_a_parameter_without_gradient_stays_as_it_is() -> None:
    servers = Servers(2, model=Spare)
    mine, other = Spare(), Spare()
    work(servers, mine, sgd(mine))
    servers.end()
    plain(other, sgd(other), epochs=3, batch=10)
    close(mine, other)
    assert mine.spare.tolist() == [1, 1, 1, 1]


def test_a_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    checkpoints, told = Checkpoints(tmp_path, keep=9), []
    signature = signature_of(made(), sgd(made()))

    def save(step: int, state: dict[str, Any]) -> None:
        told.append((step, state["position"]))
        if step < 16:
            checkpoints.save(step, state, signature, wait=True)

    servers = Servers(2, save=save, save_every=8)
    first = made()
    work(servers, first, sgd(first), save=save)
    servers.end()
    # Told when it asks for the lease after the 8th, the 16th and the last; 6 leases are an epoch.
    assert told == [(8, [1, 20, 8]), (16, [2, 40, 16]), (18, [3, 0, 18])]

    found = checkpoints.latest(signature)
    assert found is not None

    def restore(model: nn.Module, optimizer: Any) -> None:
        TrainingState(model, optimizer).restore(found[1])

    servers = Servers(2, restore=restore, position=Position(*found[1]["position"]))
    second = made()
    assert work(servers, second, sgd(second)).updates == 10
    leases = servers.end()[0]
    close(second, first)
    assert len(leases.losses) == 2


def test_until_the_loss_is_low_enough() -> None:
    servers = Servers(1, until=lambda loss: loss < 1e9)
    model = made()
    assert work(servers, model, sgd(model)).updates == 6
    assert len(servers.end()[0].losses) == 1


# bad input


def test_a_bad_loss_is_said_and_nothing_applied() -> None:
    def line(model: Any, batch: Any) -> Tensor:
        """Losses with the same gradients in any order: a lost lease comes back when it is noticed."""
        return model(batch[0]).squeeze(1)

    def rate(model: nn.Module) -> Any:
        return optim.SGD(model.parameters(), lr=0.02)

    servers = Servers(1, rate)
    model = made()
    for bad, words in (
        (lambda m, b: line(m, b).mean(), r"10 losses \(reduction"),
        (lambda m, b: line(m, b) * float("nan"), "nan"),
        (line, ""),  # what those two had leased is done by this one
    ):
        with pytest.raises(BadTrainingError, match=words) if words else nullcontext():
            train_asynchronously(
                model, rate(model), bad, data(), 10, 3, "worker", servers.addresses, token="secret"
            )
    leases = servers.end()[0]
    assert (leases.done, leases.repeated) == (18, 2)
    other = made()
    plain(other, rate(other), epochs=3, batch=10, losses=line)
    close(model, other)


def test_another_model_another_optimiser_too_large_a_batch() -> None:
    servers = Servers(1)
    other = nn.Linear(3, 1)
    with pytest.raises(BadTrainingError, match="another model"):
        work(servers, other, sgd(other))
    model = made()
    work(servers, model, sgd(model))
    servers.end()
    with pytest.raises(BadTrainingError, match="LBFGS"):
        Shard(optim.LBFGS(model.parameters()), list(model.parameters()), [Range(0, 0, 6)])
    with pytest.raises(BadTrainingError, match="fewer than the global batch"):
        train_asynchronously(model, None, forward, data(), 61, 1, "worker", ["h:1"], token="secret")


# servers


def test_an_update_is_stale_by_what_others_did_since_the_pull() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
    shard = Shard(optim.SGD([parameter], lr=0.5), [parameter], [Range(0, 0, 2)])
    early, _ = shard.read()
    late, _ = shard.read()
    assert shard.update(late, [torch.tensor([1.0, 0.0])], []) == (1, 0)
    assert shard.update(late + 1, [torch.tensor([1.0, 0.0])], []) == (2, 0)
    # Both gradients count in full: 1 - 0.5 - 0.5 - 0.5 and 2 - 0.5.
    assert shard.update(early, [torch.tensor([1.0, 1.0])], []) == (3, 2)
    version, values = shard.read()
    assert (version, values[0].tolist()) == (3, [-0.5, 1.5])


def test_parameters_are_spread_evenly_and_each_element_once() -> None:
    parameters = [torch.zeros(3000, 1000), torch.zeros(7), torch.zeros(500, 500), torch.zeros(())]
    found = assign(parameters, 3)
    sizes = [sum(s.end - s.begin for s in segments) for segments in found]
    assert sum(sizes) == 3_250_008
    # The largest piece is 4 MiB, 2^20 elements: servers differ by less than that.
    assert max(sizes) - min(sizes) < 2**20
    elements = Counter((s.tensor, e) for part in found for s in part for e in (s.begin, s.end - 1))
    assert all(elements[index, 0] for index in range(4))
    for index, parameter in enumerate(parameters):
        parts = sorted((s.begin, s.end) for part in found for s in part if s.tensor == index)
        assert [0, *(end for _, end in parts)] == [*(begin for begin, _ in parts), parameter.numel()]


def test_more_servers_than_elements() -> None:
    assert sum(map(bool, assign([torch.zeros(2)], 4))) == 2


# leases


def leases_of(**options: Any) -> LeasedBatches:
    return LeasedBatches(Order(10, 4, shuffle=False), **options)


def test_a_lost_lease_is_given_out_again_before_new_ones() -> None:
    leases = leases_of(epochs=1)
    first, second = leases.take(1, 0), leases.take(2, 0)
    assert first is not None and second is not None
    assert (first.place.cursor, second.place.cursor) == (0, 4)
    leases.lose(1)
    assert leases.position.cursor == 0
    leases.finish(first.number, 9.0, 4)  # its word comes too late: another will do it
    assert leases.done == 0
    again = leases.take(3, 0)
    assert again == first
    third = leases.take(3, 0)
    assert third is not None and third.place.cursor == 8
    assert leases.take(3, 0) is None and not leases.ended
    for lease, samples in ((second, 4), (first, 4), (third, 2)):
        leases.finish(lease.number, 1.0, samples)
    assert leases.ended
    assert (leases.done, leases.repeated, leases.losses) == (3, 1, [0.3])  # 3 x 1.0 over 10 samples


def test_whoever_waits_gets_what_comes_back() -> None:
    leases = leases_of(steps=1)
    first = leases.take(1, 0)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(leases.take(2, LIMIT)))
    waiting.start()
    leases.lose(1)
    waiting.join(LIMIT)
    assert found == [first]


def test_a_silent_workers_lease_goes_to_another() -> None:
    model, order = made(), Order(COUNT, 10, 0)
    parameters = list(model.parameters())
    shard = Shard(sgd(model), parameters, assign(parameters, 1)[0])
    leases = LeasedBatches(order, epochs=3)
    server = ParameterServer(shard, checksum(parameters), leases, patience=0.2)
    peers = PeerServer("127.0.0.1", "secret")
    thread = threading.Thread(target=serve, args=(server, peers, [], "secret"), daemon=True)
    thread.start()
    peers.start()
    hello = {"kind": KIND, "role": "worker", "checksum": checksum(parameters)}
    with connect(peers.address, hello, "secret", LIMIT) as silent:
        receive_json(silent)
        send_json(silent, {"op": "lease", "done": None, "losses": 0, "samples": 0})
        assert receive_json(silent)["lease"][0] == 1
        train_asynchronously(
            made(), None, forward, data(), 10, 3, "worker", [peers.address], token="secret"
        )
    thread.join(LIMIT)
    peers.close()
    assert (leases.done, leases.repeated) == (18, 1)


# real processes

context = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> Iterator[None]:
    """Children are forks of a process that has imported torch."""
    context.set_forkserver_preload(["torch._dynamo", "muster.runtime.asynchronous"])
    yield


def serve_process(index: int, pipe: Connection, options: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    peers = PeerServer("127.0.0.1", "secret")
    peers.start()
    pipe.send(peers.address)
    model = made()
    try:
        leases = train_asynchronously(
            model, sgd(model), forward, data(), 12, 20, "server", pipe.recv(),
            index=index, peers=peers, token="secret", workers=3, **options,
        )  # fmt: skip
        pipe.send((leases.done, leases.repeated) if isinstance(leases, LeasedBatches) else None)
    except LostServerError as problem:
        pipe.send(str(problem))


def work_process(pipe: Connection, servers: list[str], ready: Any, gone: Any, victim: bool) -> None:
    """Tells the samples of every update; the victim stops at its fourth, others wait for its end."""
    torch.set_num_threads(1)
    model, ids, seen = made(), [0], [0]

    def watched(model: Any, batch: Any) -> Tensor:
        ids[:] = batch[2].tolist()
        seen[0] += 1
        if victim and seen[0] == 4:
            pipe.send("kill me")
            threading.Event().wait()
        return forward(model, batch)

    def told(report: AsyncReport) -> None:
        pipe.send(list(ids))
        if report.updates == 20:
            gone.wait(LIMIT)

    ready.wait(LIMIT)
    report = train_asynchronously(
        model, sgd(model), watched, data(), 12, 20, "worker", servers,
        token="secret", workers=3, on_step=told,
    )  # fmt: skip
    assert isinstance(report, AsyncReport)
    weights = [value for p in model.parameters() for value in p.flatten().tolist()]
    pipe.send({"weights": weights, "updates": report.updates, "stalest": report.stalest})


def begun(target: Any, *arguments: Any) -> tuple[Any, Connection]:
    mine, theirs = context.Pipe()
    process = context.Process(
        target=target, args=(*(theirs if a is Ellipsis else a for a in arguments),)
    )
    process.daemon = True
    process.start()
    theirs.close()
    return process, mine


def servers_begun(count: int, options: dict[str, Any]) -> tuple[list[Any], list[Connection], list[str]]:
    processes, pipes = zip(*(begun(serve_process, i, ..., options) for i in range(count)), strict=True)
    addresses = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(addresses)
    return list(processes), list(pipes), addresses


def test_a_worker_is_killed_and_the_others_finish() -> None:
    servers, server_pipes, addresses = servers_begun(2, {})
    ready, gone = context.Barrier(3), context.Event()
    pairs = [begun(work_process, ..., addresses, ready, gone, i == 0) for i in range(3)]
    used: Counter[int] = Counter()
    ends: list[dict[str, Any]] = []
    pipes: list[Any] = [pipe for _, pipe in pairs]
    while pipes:
        heard: list[Any] = wait(pipes, LIMIT)
        assert heard, "somebody hangs"
        for pipe in heard:
            try:
                told = pipe.recv()
            except EOFError:
                pipes.remove(pipe)
                continue
            if told == "kill me":
                os.kill(pairs[0][0].pid, signal.SIGKILL)
                gone.set()
            elif isinstance(told, dict):
                ends.append(told)
            else:
                used.update(told)
    # 60 samples, 20 epochs; the victim died before its push, so its lease counts once, for another.
    assert used == Counter(dict.fromkeys(range(COUNT), 20))
    assert server_pipes[0].recv() == (300, 1)  # 60 / (12 / 3) leases an epoch
    assert server_pipes[1].recv() is None
    for process in [*servers, *(process for process, _ in pairs)]:
        process.join(LIMIT)
        assert process.exitcode == (-signal.SIGKILL if process is pairs[0][0] else 0)
    assert sum(end["updates"] for end in ends) == 300 - 3
    assert ends[0]["weights"] == ends[1]["weights"]
    best = [1, 2, 3, 4, 5, 6, 2]  # decay keeps it a little below
    assert max(abs(a - b) for a, b in zip(ends[0]["weights"], best, strict=True)) < 0.05


def test_a_lost_server_is_named_and_so_is_the_checkpoint() -> None:
    servers, pipes, addresses = servers_begun(2, {"checkpoint": "/the/folder"})
    model = made()

    def killing(report: AsyncReport) -> None:
        if report.updates == 3:
            os.kill(servers[1].pid, signal.SIGKILL)
            servers[1].join(LIMIT)

    with pytest.raises(LostServerError, match=f"server {addresses[1]}.* gone .*/the/folder"):
        train_asynchronously(
            model, sgd(model), forward, data(), 12, 20, "worker", addresses,
            token="secret", workers=3, on_step=killing, checkpoint="/the/folder",
        )  # fmt: skip
    assert addresses[1] in pipes[0].recv()
    servers[0].join(LIMIT)
    assert servers[0].exitcode == 0


def test_a_stranger_gets_no_answer() -> None:
    servers = Servers(1)
    with pytest.raises(ConnectionError, match="does not know this job's token"):
        connect(servers.addresses[0], {"kind": KIND, "role": "worker"}, "wrong", LIMIT)
    model = made()
    work(servers, model, sgd(model))
    servers.end()


def test_workers_before_their_servers() -> None:
    """The peer is there, but serves nothing yet."""
    peers = PeerServer("127.0.0.1", "secret")
    peers.start()
    model = made()
    found: list[Any] = []
    worker = threading.Thread(
        target=lambda: found.append(
            train_asynchronously(
                model, sgd(model), forward, data(), 10, 3, "worker", [peers.address], token="secret"
            )
        ),
        daemon=True,
    )
    worker.start()
    held = made()
    train_asynchronously(
        held, sgd(held), forward, data(), 10, 3, "server", [peers.address], peers=peers, token="secret"
    )
    worker.join(LIMIT)
    peers.close()
    assert found[0].updates == 18
