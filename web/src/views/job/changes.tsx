import { useMemo } from "preact/hooks";

import type { Job } from "../../api/client";
import { Chart } from "../../charts/chart";
import { clock, duration } from "../../format";
import { Status } from "../../ui/status";
import type { Span } from "../timeline/spans";

const SHOWN = 50;

/** Workers over time, with every change, how long it took, and why. */
export function Changes({ spans, job }: { spans: Span[]; job: Job }) {
  const last = spans.at(-1)!;
  const option = useMemo(() => {
    const points = spans.flatMap((span, at) => {
      const next = spans[at + 1];
      const gap = span.ended != null && (!next || next.began > span.ended + 1) ? [[1000 * span.ended, 0]] : [];
      return [[1000 * span.began, span.status === "running" ? span.workers : (spans[at - 1]?.workers ?? 0)], ...gap];
    });
    points.push([1000 * (last.ended ?? Date.now() / 1000), last.ended == null ? last.workers : 0]);
    return {
      xAxis: { type: "time", min: "dataMin", max: "dataMax" },
      yAxis: { type: "value", minInterval: 1, min: 0 },
      series: [{ type: "line", name: "workers", step: "end", showSymbol: false, areaStyle: { opacity: 0.15 }, data: points }],
    };
  }, [spans.length, last.ended, last.status, job.workers]);
  return (
    <section class="card" aria-label="Workers over time">
      <h2>Workers over time</h2>
      <Chart option={option} height={160} label={`Workers over time: ${spans.length} changes, listed below`} />
      <div class="scroll changes" tabIndex={0} aria-label="Changes, newest first" role="region">
        <table>
          <thead>
            <tr>
              <th>When</th>
              <th>What</th>
              <th class="number">Workers</th>
              <th>For</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {[...spans].reverse().slice(0, SHOWN).map((span) => (
              <tr key={`${span.began}${span.status}`}>
                <td>{clock(span.began)}</td>
                <td>
                  <Status status={span.status} />
                </td>
                <td class="number">{span.workers}</td>
                <td>{span.ended == null ? "" : duration(span.ended - span.began)}</td>
                <td>{span.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
