"""Torch without its compiler: half of what a worker takes to start, and no script here compiles."""

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any


def leave_compiler_out() -> None:
    """Give optimisers, which load the compiler in order not to be compiled, nothing to load."""
    absent = ModuleType("torch._dynamo")
    names: dict[str, Any] = {
        "disable": lambda function, *_, **__: function,
        "graph_break": lambda *_, **__: None,
        "set_stance": nullcontext,
    }
    absent.__dict__.update(names)
    sys.modules["torch._dynamo"] = absent
