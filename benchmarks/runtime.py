"""Every target of the elastic training runtime, part by part.

resize      stall of a change of workers, against a restart and torchrun's elastic restart (and torchft)
throughput  a fixed set of workers against DistributedDataParallel
balance     shares found by the runtime at speeds 4:2:1, against equal shares and the ideal
owners      owners of parameters on shaped links (needs root and iproute2)
kill        time lost by a killed and by a stopped worker, against torchrun's restart
memory      peak of a worker against DistributedDataParallel with bucket views
state       the cost of comparing members; a join with 200 M frozen parameters
data        loader processes against torch's DataLoader with as many workers
sharded     models in parts against torch's FSDP2: speed and memory of a worker
lines       lines of user code against DDP, Horovod-style and torchft

Each part is a command of its own, `benchmarks/runtime_<part>.py`; this one runs them in turn, shows
what they print, and repeats all their targets at the end. A part that cannot run here is `short`.
"""

from support.parts import run_parts

PARTS = (
    "resize",
    "throughput",
    "balance",
    "owners",
    "kill",
    "memory",
    "state",
    "data",
    "sharded",
    "lines",
)
QUICK = ("balance", "lines")
"""Whose quick runs fit into half a minute together; each of the others has one of its own."""

if __name__ == "__main__":
    run_parts("runtime", __doc__, PARTS, QUICK)
