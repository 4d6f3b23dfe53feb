"""Draw docs/img/convergence.svg: recorded losses, the curve fitted halfway, the predicted end.

Run as `PYTHONPATH=benchmarks python examples/training/draw.py`; needs neither torch nor scikit-learn.
"""

from collections.abc import Iterable
from pathlib import Path

from muster.perf.epochs.convergence import Remaining, Target, remaining
from support.curves import Case, converged, load

SHOWN = ("logistic-cancer-sgd", "transformer-text-adam", "mlp-wine-sgd", "factors-words-sgd")
TARGET = Target(0.002)
SHARE = 0.5
WIDTH, HEIGHT, MARGIN, TOP = 400, 220, 34, 40
PICTURE = Path(__file__).parents[2] / "docs" / "img" / "convergence.svg"
STYLE = """
text { font: 12px sans-serif; fill: #333 } .name { font-weight: bold }
.axis { stroke: #999; fill: none }
.later { stroke: #bbb; fill: none; stroke-width: 2 } .seen { stroke: #333; fill: none; stroke-width: 2 }
.fitted { stroke: #d55e00; fill: none; stroke-width: 1.5; stroke-dasharray: 5 3 }
.interval { fill: #d55e00; opacity: .15 } .mean { stroke: #d55e00 } .truth { stroke: #0072b2 }
"""


class Panel:
    """One curve's part of the picture, with its own scales."""

    def __init__(self, case: Case, left: int, top: int) -> None:
        self.case, self.left, self.top = case, left, top
        self.last = case.curve.points[-1].epoch
        self.largest = max(point.loss for point in case.curve.points)

    def x(self, epoch: float) -> float:
        """Where an epoch lies, at most at the right edge."""
        return self.left + MARGIN + min(epoch / self.last, 1.0) * (WIDTH - 2 * MARGIN)

    def y(self, loss: float) -> float:
        """Where a loss lies."""
        return self.top + HEIGHT - MARGIN - loss / self.largest * (HEIGHT - MARGIN - TOP)

    def line(self, style: str, points: Iterable[tuple[float, float]]) -> str:
        """A line through epochs and losses."""
        places = " ".join(f"{self.x(epoch):.1f},{self.y(loss):.1f}" for epoch, loss in points)
        return f'<polyline class="{style}" points="{places}"/>'

    def upright(self, style: str, epoch: float) -> str:
        """A line at an epoch, from top to bottom."""
        return self.line(style, [(epoch, 0.0), (epoch, self.largest)])

    def draw(self) -> list[str]:
        """The panel's elements."""
        seen = self.case.seen(SHARE)
        found = remaining(seen, TARGET)
        assert isinstance(found, Remaining) and found.forecast is not None
        now, curve, left = seen[-1].epoch, found.forecast.curve, found.epochs
        low, high = self.x(now + left.low), self.x(now + left.high)
        fitted = range(int(curve.since), int(self.last) + 1)
        title = f"{self.case.curve.name}: at epoch {now:.0f} of {self.case.truth},"
        said = f"predicted {now + left.mean:.0f} ({now + left.low:.0f} to {now + left.high:.0f})"
        return [
            f'<text class="name" x="{self.left + MARGIN}" y="{self.top + 16}">{title}</text>',
            f'<text x="{self.left + MARGIN}" y="{self.top + 31}">{said}</text>',
            f'<rect class="interval" x="{low:.1f}" y="{self.top + TOP}" width="{high - low:.1f}" '
            f'height="{HEIGHT - MARGIN - TOP}"/>',
            self.line("axis", [(0, self.largest), (0, 0), (self.last, 0)]),
            self.line("later", [(point.epoch, point.loss) for point in self.case.curve.points]),
            self.line("seen", [(point.epoch, point.loss) for point in seen]),
            self.line("fitted", [(epoch, curve.loss(epoch)) for epoch in fitted]),
            self.upright("mean", now + left.mean),
            self.upright("truth", self.case.truth),
            f'<text x="{self.x(self.last) - 70:.0f}" y="{self.top + HEIGHT - 18}">'
            f"epoch {self.last:.0f}</text>",
        ]


def main() -> None:
    """Write the picture."""
    curves = {curve.name: curve for curve in load()}
    elements: list[str] = []
    for at, name in enumerate(SHOWN):
        truth = converged(curves[name], TARGET)
        assert truth is not None
        panel = Panel(Case(curves[name], TARGET, truth), at % 2 * WIDTH, at // 2 * HEIGHT)
        elements += panel.draw()
    legend = "grey: recorded; black: seen; orange: fitted, predicted end, 80 % interval; blue: true end"
    elements.append(f'<text x="{MARGIN}" y="{2 * HEIGHT + 14}">{legend}</text>')
    size = f'width="{2 * WIDTH}" height="{2 * HEIGHT + 24}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>'
    back = '<rect width="100%" height="100%" fill="white"/>'
    PICTURE.write_text("\n".join([head, back, *elements, "</svg>", ""]))


if __name__ == "__main__":
    main()
