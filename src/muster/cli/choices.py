"""Values that options of several commands may have. Quick to import."""

from enum import StrEnum


class Output(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


class Form(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class Resize(StrEnum):
    """How a running job gets other tasks."""

    LIVE = "live"
    RESTART = "restart"


class Strategy(StrEnum):
    """Where jobs go: see docs/explanation/placement.md."""

    ADAPTIVE = "adaptive"
    PACK = "pack"
    SPREAD = "spread"
    EVEN = "even"
    ROOMY = "roomy"
