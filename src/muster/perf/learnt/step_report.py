"""What a running job measures of its steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a running job measures of itself."""

    step: float
    """s of one step."""
    sync: float | None = None
    """The part of it spent synchronising, if measured."""
    gain: float = 1.0
    """Work of one step, in the job's unit."""
    noise: float | None = None
    """Samples at which the gradient's noise equals its signal (Pollux' phi), if measured."""
    slowed: float = 1.0
    """The factor by which neighbours are known to make the step longer."""
