"""What jobs on engines run."""

ONCE = "echo $MUSTER_GENERATION >> starts; until test -e go; do sleep 0.05; done"
"""Notes each start, and waits."""

GANG = """
import gc
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"{dist.get_rank()} of {dist.get_world_size()}: {total.item():.0f}", flush=True)
# The model holds the group as well. With its threads alive, torch may abort as Python ends: one of them
# asks for the interpreter that is no more.
del model
gc.collect()
dist.destroy_process_group()
"""
"""DDP; each process tells its rank and the sum of all."""
