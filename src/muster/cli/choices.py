"""Values of options that several commands share. Quick to import."""

from typing import Literal

Output = Literal["text", "json"]
ListFormat = Literal["table", "wide", "json"]
Resize = Literal["live", "restart"]
PlacementStrategy = Literal["adaptive", "pack", "spread", "even", "roomy"]
"""See docs/explanation/placement.md."""
