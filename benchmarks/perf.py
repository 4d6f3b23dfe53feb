"""Every target of the performance models and the planner, part by part.

xiao         Xiao's measurements from one cluster file, without a fit
compute      how long devices compute, against published and measured figures
t4           the T4 cluster's measured steps, from eight samples (needs ../shared/data)
transfers    real steps over shaped links in network namespaces (needs root, iproute2 and torch)
plans        chosen plans against exhaustive search; cost of a question and of a plan
convergence  epochs left, on recorded loss curves

Each part is a command of its own, `benchmarks/perf_<part>.py`; this one runs them in turn, shows what
they print, and repeats all their targets at the end. A part that cannot run here counts as `short`.
"""

from support.parts import run_parts

PARTS = ("xiao", "compute", "t4", "transfers", "plans", "convergence")
QUICK = ("xiao", "compute", "t4", "convergence")
"""Those whose quick runs fit into half a minute together; the others have a quick run of their own."""

if __name__ == "__main__":
    run_parts("perf", __doc__, PARTS, QUICK)
