"""Every target of the policies and the simulator, part by part.

t4         published policies, and Muster's own, on the measured T4 cluster (needs ../shared/data)
optimus    Optimus' own table: its 13 servers and nine job types
rigid      the default against fifo where nothing is known of rigid jobs
fair       makespan and finish-time fairness of all policies, 120 jobs on 32 devices
cheaper    live resizes at events against restarts in rounds (needs ../shared/data)
sharing    KAIST's claim: dynamic against static allocation
placement  Xiao's claim: adaptive against packing and spreading
fast       time and memory: the Philly extract (needs ../shared/data), workloads, growth with jobs

Each part is a command of its own, `benchmarks/sim_<part>.py`; this one runs them in turn, shows what
they print, and repeats all their targets at the end. A part that cannot run here counts as `short`.
"""

from support.parts import run_parts

PARTS = ("t4", "optimus", "rigid", "fair", "cheaper", "sharing", "placement", "fast")
QUICK = ("fast",)
"""Whose quick run fits into half a minute; each of the others has one of its own."""

if __name__ == "__main__":
    run_parts("sim", __doc__, PARTS, QUICK)
