"""Learns from the messages of live jobs: progress, outlooks and predictions."""

from muster.daemon.learn.beliefs import Beliefs
from muster.daemon.learn.notes import KINDS
from muster.daemon.learn.progress import Progress

__all__ = ["KINDS", "Beliefs", "Progress"]
