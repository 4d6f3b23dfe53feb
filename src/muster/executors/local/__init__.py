"""Tasks as processes of this machine, whoever starts, dies and is started again."""

from muster.executors.local.executor import LocalExecutor as LocalExecutor
