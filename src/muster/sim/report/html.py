"""The report page: table, figures, meanings, configuration and hash.

It is self-contained, and all input is escaped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from muster.sim.report.compare import Comparison, Digest
from muster.sim.report.gantt import gantt
from muster.sim.report.holders import By, applications
from muster.sim.report.plots import completion_cdf, load_over_time, mean_bars, shares_over_time
from muster.sim.report.style import svg
from muster.sim.report.table import Column, cells, columns, footer
from muster.sim.result import Result


@dataclass(frozen=True, slots=True)
class Illustration:
    """A figure of the page, as SVG, with its caption."""

    svg: str
    caption: str


def page(comparison: Comparison, illustrations: Sequence[Illustration], title: str = "Policies") -> str:
    """Return the whole page."""
    shown = columns(comparison)
    figures = "\n".join(map(_figure, illustrations))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{"".join(f"<p>{escape(line)}</p>" for line in footer(comparison))}
<div class="wide">{_table(comparison, shown)}</div>
{figures}
<h2>What the columns mean</h2>
<dl>{"".join(f"<dt>{escape(c.heading)}</dt><dd>{escape(c.meaning)}</dd>" for c in shown)}</dl>
<h2>How to reproduce it</h2>
<p>The same configuration and seed give the same result to the digit; equal hashes, equal results.</p>
{_hashes(comparison.hashes)}
<pre>{escape(json.dumps(comparison.configuration, indent=2, ensure_ascii=False, default=str))}</pre>
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def illustrations(
    digests: Sequence[Digest], comparison: Comparison, results: Sequence[Result]
) -> list[Illustration]:
    """Draw the figures of a comparison; `results`, one for each policy, give those over time."""
    found = [
        Illustration(
            svg(mean_bars(comparison), "mean"),
            "Mean completion time with its 95 % interval. The dashed line is the lower bound; "
            "the factor is the ratio to it.",
        ),
        Illustration(
            svg(completion_cdf(digests), "cdf"),
            "Share of jobs completed within a time: higher and further left is better.",
        ),
    ]
    sampled = [result for result in results if result.samples]
    if sampled:
        drawing = svg(load_over_time(sampled), "load")
        found.append(Illustration(drawing, "Share of the devices held, and waiting jobs, over time."))
    for number, result in enumerate(result for result in results if result.stints):
        found += _details(result, number)
    return found


def _details(result: Result, number: int) -> list[Illustration]:
    by = By.APPLICATION if applications(result) > 1 else By.POOL
    return [
        Illustration(
            svg(shares_over_time(result, by), f"share{number}"),
            f"Devices held under {result.policy}; the dashed line is the capacity.",
        ),
        Illustration(
            svg(gantt(result), f"gantt{number}"),
            f"Devices by holder over time under {result.policy}; grey is idle.",
        ),
    ]


def _figure(illustration: Illustration) -> str:
    caption = escape(illustration.caption)
    return f"<figure>{illustration.svg}<figcaption>{caption}</figcaption></figure>"


def _table(comparison: Comparison, shown: Sequence[Column]) -> str:
    head = "".join(f'<th title="{escape(c.meaning)}">{escape(c.heading)}</th>' for c in shown)
    body = "".join(_line(line) for line in cells(comparison, shown))
    return f"<table><thead><tr><th>POLICY</th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _line(line: Sequence[str]) -> str:
    name, *figures = map(escape, line)
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in figures)}</tr>'


def _hashes(hashes: Mapping[str, str]) -> str:
    lines = "".join(
        f"<tr><td>{escape(run)}</td><td><code>{escape(value)}</code></td></tr>"
        for run, value in hashes.items()
    )
    return f'<table class="plain"><tbody>{lines}</tbody></table>'


_STYLE = """
:root { --ink: #24292f; --muted: #6e7782; --grid: #d8dee5; --paper: #ffffff; --shade: #f5f7f9; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --muted: #98a2ad; --grid: #3a424b; --paper: #15191e; --shade: #1e242b; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .75rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0; color: var(--muted); }
.wide { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87rem; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
thead th { border-bottom: 2px solid var(--grid); font-weight: 600; font-size: .76rem; cursor: pointer; }
tbody tr + tr > * { border-top: 1px solid var(--grid); }
tbody tr:hover > * { background: var(--shade); }
.plain td { text-align: left; }
figure { margin: 2rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; max-width: 60rem; display: block; }
figure svg text { font-family: system-ui, sans-serif !important; }
figcaption { color: var(--muted); font-size: .9rem; margin-top: .25rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
dt { font-weight: 600; font-size: .8rem; } dd { margin: 0; color: var(--muted); }
pre { background: var(--shade); padding: .8rem 1rem; border-radius: 6px; font-size: .8rem;
      white-space: pre-wrap; overflow-wrap: anywhere; }
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  body { font-size: 10px; } main { max-width: none; padding: 0; }
  .wide { overflow: visible; } th, td { padding: .15rem .3rem; white-space: normal; }
  .wide table { font-size: 7px; } thead th { font-size: 6px; }
}
"""

_SCRIPT = """
for (const head of document.querySelectorAll(".wide thead th")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const value = row => {
      const text = row.cells[at].textContent, number = parseFloat(text.replace(/,/g, ""));
      return at === 0 ? text : Number.isNaN(number) ? Infinity : number;
    };
    const turn = head.dataset.order === "up" ? -1 : 1;
    head.dataset.order = turn === 1 ? "up" : "down";
    const compared = (a, b) => turn * ((value(a) > value(b)) - (value(a) < value(b)));
    body.append(...[...body.rows].sort(compared));
  });
}
"""
