"""A cluster of one device and traces of a few jobs, in files, for tests of whole simulations."""

from pathlib import Path

from muster.sim.scenario.configuration import Configuration


def cluster_file(folder: Path, *, nodes: int = 1, devices: int = 1, pools: str = "") -> Path:
    """This many nodes of this many devices."""
    path = folder / "cluster.yaml"
    text = f"""
configurations:
  each: {{device: T4, devices: {devices}, cores: 8, memory: 64GB}}
nodes:
  n[1-{nodes}]: each
{pools}"""
    path.write_text(text, encoding="utf-8")
    return path


def trace_file(folder: Path, *rows: str, heading: str = "submitted,devices,duration,name") -> Path:
    """A CSV of these rows."""
    path = folder / "trace.csv"
    path.write_text("\n".join([heading, *rows, ""]), encoding="utf-8")
    return path


def two_jobs(folder: Path) -> Configuration:
    """One device; `a` takes 100 s, `b` takes 50 s, both submitted at 0; a start costs nothing."""
    trace = trace_file(folder, "0,1,100,a", "0,1,50,b")
    return Configuration(cluster=str(cluster_file(folder)), trace=str(trace), policy="fifo", pause=0.0)
