"""What live jobs show of themselves, turned into progress, outlooks, predictions and records."""

from muster.daemon.learn.beliefs import Beliefs
from muster.daemon.learn.notes import KINDS
from muster.daemon.learn.progress import Progress

__all__ = ["KINDS", "Beliefs", "Progress"]
