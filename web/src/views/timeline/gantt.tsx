import { useEffect, useMemo, useRef } from "preact/hooks";

import { Chart } from "../../charts/chart";
import { duration, moment } from "../../format";
import { go } from "../../router";
import { isDark } from "../../ui/theme";
import { inks, jobColour } from "../cluster/colours";
import { runs, type Span } from "./spans";

interface Props {
  spans: Span[];
  since: number;
  until: number;
}

/** What ECharts hands to the drawing of one bar. */
interface Drawn {
  value: (index: number) => number;
  coord: (point: [number, number]) => [number, number];
  size: (extent: [number, number]) => [number, number];
}
interface Frame {
  coordSys: { x: number; y: number; width: number; height: number };
}

const ROWS = 24; // nodes in view, where there are more
const FIRST = { startValue: 0, endValue: ROWS - 1 };

/** One row per node, divided among its devices; a bar per job that held them. */
export function Gantt({ spans, since, until }: Props) {
  const dark = isDark();
  const zoomed = useRef(false);
  const option = useMemo(() => {
    const nodes = [...new Set(spans.flatMap((span) => Object.keys(span.devices)))].sort(byNumber);
    const row = new Map(nodes.map((name, at) => [name, at]));
    const size = nodes.map((name) => 1 + Math.max(0, ...spans.flatMap((span) => span.devices[name] ?? [])));
    const bars = spans.flatMap((span, at) =>
      Object.entries(span.devices).flatMap(([node, devices]) =>
        runs(devices).map(([first, many]) => {
          const place = row.get(node)!;
          return [1000 * Math.max(span.began, since), 1000 * (span.ended ?? until), place, first / size[place]!, many / size[place]!, at];
        }),
      ),
    );
    return {
      grid: { left: 8, right: 16, top: 8, bottom: 56, containLabel: true },
      xAxis: { type: "time", min: 1000 * since, max: 1000 * until },
      yAxis: { type: "category", data: nodes, inverse: true, splitLine: { show: true } },
      dataZoom: [
        { type: "inside", xAxisIndex: 0, filterMode: "weakFilter" },
        { type: "slider", xAxisIndex: 0, height: 22, bottom: 6, filterMode: "weakFilter" },
        ...(nodes.length > ROWS ? [{ type: "slider", yAxisIndex: 0, width: 14, right: 0, filterMode: "weakFilter", ...(zoomed.current ? {} : FIRST) }] : []),
      ],
      tooltip: { trigger: "item", formatter: (found: { value: number[] }) => told(spans[found.value[5]!]!, until) },
      series: [
        {
          type: "custom",
          encode: { x: [0, 1], y: 2 },
          clip: true,
          data: bars,
          renderItem: (frame: Frame, drawn: Drawn) => bar(frame, drawn, spans, dark),
        },
      ],
    };
  }, [spans, since, until, dark]);
  useEffect(() => void (zoomed.current = true), []); // what the user has zoomed to stays, whatever comes in
  const rows = Math.min(ROWS, option.yAxis.data.length);
  return (
    <section class="card" aria-label="Devices over time">
      <Chart
        option={option}
        height={Math.max(180, rows * 44 + 80)}
        label={`${spans.length} spans on ${option.yAxis.data.length} nodes; the table below lists what was decided`}
        onClick={(found) => {
          const span = spans[(found as { value?: number[] }).value?.[5] ?? -1];
          if (span?.number != null) go(`/jobs/${span.number}`);
        }}
      />
      <p class="note">Pale: starting or resizing. Drag the band below the picture to zoom; click a bar to open its job.</p>
    </section>
  );
}

/** The rectangle of one bar, cut to the picture. */
function bar(frame: Frame, drawn: Drawn, spans: Span[], dark: boolean) {
  const [began, ended, row, first, part, at] = [0, 1, 2, 3, 4, 5].map((index) => drawn.value(index)) as [number, number, number, number, number, number];
  const [left, middle] = drawn.coord([began, row]);
  const [right] = drawn.coord([ended, row]);
  const band = 0.86 * Math.abs(drawn.size([0, 1])[1]);
  const area = frame.coordSys;
  const from = Math.max(left, area.x);
  const to = Math.min(right, area.x + area.width);
  if (to < from) return null;
  const span = spans[at]!;
  const shape = { x: from, y: middle - band / 2 + first * band, width: Math.max(1, to - from), height: Math.max(1, part * band - 1) };
  const fill = span.number == null ? inks(dark).hidden : jobColour(span.number, dark);
  return { type: "rect", shape, style: { fill, opacity: span.status === "running" ? 1 : 0.45 } };
}

function told(span: Span, until: number): string {
  const name = span.number == null ? "another user's job" : `${span.job} (${span.number}) of ${span.user}`;
  const lines = [
    name,
    `${span.status}${span.workers ? `, ${span.workers} workers` : ""}`,
    `${moment(span.began)}, ${duration((span.ended ?? until) - span.began)}${span.ended == null ? " so far" : ""}`,
  ];
  if (span.reason) lines.push(span.reason.length > 90 ? `${span.reason.slice(0, 88)}…` : span.reason);
  return lines.join("\n");
}

/** n2 before n10. */
function byNumber(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
