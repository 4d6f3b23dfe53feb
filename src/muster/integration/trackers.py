"""One run of an experiment tracker, whichever worker is the primary.

Frameworks open trackers themselves, so W&B and MLflow are told by the variables that they read. What
the user has set stays.
"""

import json
import os
from importlib import import_module
from typing import Any

from muster.runtime.user.tracker import let_wandb_flush

FLUSH = 1.0
"""Seconds of W&B's points that a primary may take with it when it is killed."""
TAG = "muster"


def name_run(run: str, mlflow: bool) -> None:
    """Let the trackers of this process continue a run of this name, or begin it.

    `mlflow`: whether it is among them.
    """
    os.environ.setdefault("WANDB_RUN_ID", run)
    os.environ.setdefault("WANDB_RESUME", "allow")
    let_wandb_flush(FLUSH)
    tags = json.loads(os.environ.get("MLFLOW_TAGS") or "{}")
    os.environ["MLFLOW_TAGS"] = json.dumps({TAG: run, **tags})
    if mlflow and "MLFLOW_RUN_ID" not in os.environ:
        _find_in_mlflow(run)


def _find_in_mlflow(run: str) -> None:
    """MLflow names its runs itself: find ours by its tag, if an earlier primary has begun it."""
    module: Any = import_module("mlflow")
    found = module.search_runs(
        filter_string=f"tags.{TAG} = '{run}'", output_format="list", search_all_experiments=True
    )
    if found:
        os.environ["MLFLOW_RUN_ID"] = found[0].info.run_id
