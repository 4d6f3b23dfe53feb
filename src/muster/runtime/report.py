"""Metrics that a script reports to the daemon of its job, with or without Muster's training loop."""

import logging
import os
import socket
import time
from collections.abc import Mapping
from math import isfinite

from muster.runtime.errors import BadTrainingError
from muster.runtime.settings import TaskSettings, from_environment
from muster.wire.agents.tls_stream import TlsStream
from muster.wire.tasks.channel import Channel
from muster.wire.tasks.introduction import introduce
from muster.wire.tasks.messages import Received, Report

TIMEOUT = 5.0
"""Seconds for the daemon to answer: a training must not wait longer for its metrics."""

_log = logging.getLogger("muster")


def report(*, epoch: int | None = None, **metrics: float) -> bool:
    """Report metrics of this job: `muster.report(epoch=3, loss=0.4, accuracy=0.87)`.

    `epoch`: epochs done; by default one more than at the last report. Write your checkpoint first: a
    sweep may stop the job because of what it reports. Only the first worker's reports count. Returns
    whether the daemon has them; outside of a job nothing happens.
    """
    return send_metrics(metrics, epoch) if os.environ.get("RANK", "0") == "0" else False


def send_metrics(metrics: Mapping[str, float], epoch: int | None) -> bool:
    """Report metrics, whichever worker this is."""
    values = {name: _number(name, value) for name, value in metrics.items()}
    if not values:
        raise BadTrainingError("report needs a metric, for example muster.report(loss=0.4)")
    if epoch is not None and epoch < 1:
        raise BadTrainingError(f"epoch counts the epochs done, from 1, not {epoch}")
    own = from_environment(os.environ)
    if own.coordinator is None or own.role != "worker":
        return False
    try:
        return _sent(own, Report(own.task, values, epoch or 0))
    except OSError as problem:  # the training is worth more than its metrics
        _log.warning("metrics were not reported: %s", problem)
        return False


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadTrainingError(f"{name} must be a number, not {value!r:.80}") from None
    return number if isfinite(number) else float("nan")


def _sent(own: TaskSettings, message: Report) -> bool:
    """Send one message on a connection of its own; return whether it was acknowledged."""
    assert own.coordinator is not None
    with socket.create_connection(own.coordinator, TIMEOUT) as sock:
        stream = TlsStream(sock) if own.encrypted else None
        channel, binding = (Channel(stream), stream.binding) if stream else (Channel(sock), "")
        introduce(channel, own.user, own.job, own.task, own.token, binding)
        channel.send(message)
        return isinstance(channel.receive(time.monotonic() + TIMEOUT), Received)
