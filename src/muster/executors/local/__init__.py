"""Tasks as processes of this machine, which outlive the daemon."""

from muster.executors.local.executor import LocalExecutor as LocalExecutor
