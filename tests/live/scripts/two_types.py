"""`train.py` on virtual devices of two types: a sample takes as long as the node's type makes it."""

import os
import runpy
import sys
from pathlib import Path

PACES = {"n0": 0.02, "n1": 0.04}
"""Seconds of a sample, by node."""

os.environ["MUSTER_DEVICE"] = "cpu"
sys.argv += ["--pace", str(PACES[os.environ["MUSTER_NODE"]])]
runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
