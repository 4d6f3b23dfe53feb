import { useMemo } from "preact/hooks";

import type { Job } from "../../api/client";
import { Chart } from "../../charts/chart";
import { clock, duration, moment } from "../../format";
import { Status } from "../../ui/status";
import { Rows } from "../../ui/table";
import type { Span } from "../timeline/spans";

const SHOWN = 50;

/** Workers over time, with every change, how long it took, and why. */
export function Changes({ spans, job }: { spans: Span[]; job: Job }) {
  const last = spans.at(-1)!;
  const option = useMemo(
    () => ({
      xAxis: { type: "time", min: "dataMin", max: "dataMax" },
      yAxis: { type: "value", minInterval: 1, min: 0 },
      series: [{ type: "line", name: "workers", step: "end", showSymbol: false, areaStyle: { opacity: 0.15 }, data: points(spans) }],
    }),
    [spans.length, last.ended, last.status, job.workers],
  );
  return (
    <section class="card" aria-label="Workers over time">
      <h2>Workers over time</h2>
      <Chart option={option} height={160} label={`Workers over time: ${spans.length} changes, listed below`} />
      <div class="scroll changes" tabIndex={0} aria-label="Changes, newest first" role="region">
        <Rows
          records={[...spans].reverse().slice(0, SHOWN)}
          keyOf={(span) => `${span.began}${span.status}`}
          columns={[
            { name: "When", of: (span) => <time title={moment(span.began)}>{clock(span.began)}</time> },
            { name: "What", of: (span) => <Status status={span.status} /> },
            { name: "Workers", number: true, of: (span) => span.workers },
            { name: "For", number: true, of: (span) => (span.ended == null ? "" : duration(span.ended - span.began)) },
            { name: "Why", of: (span) => span.reason },
          ]}
        />
      </div>
    </section>
  );
}

/** Workers that train, as steps over time; a span that only prepares has those of the one before. */
function points(spans: Span[]): [number, number][] {
  const found: [number, number][] = [];
  let training = 0;
  spans.forEach((span, at) => {
    const next = spans[at + 1];
    training = span.status === "running" ? span.workers : span.status === "starting" ? 0 : training;
    found.push([1000 * span.began, training]);
    const off = span.ended != null && (!next || next.began > span.ended + 1);
    if (off) found.push([1000 * span.ended!, 0]);
    if (off) training = 0;
  });
  if (spans.at(-1)?.ended == null) found.push([Date.now(), training]);
  return found;
}
