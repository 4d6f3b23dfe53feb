import { useMemo } from "preact/hooks";

import { Chart } from "../../charts/chart";
import { useLoaded } from "../../ui/loaded";
import { spansOf, type Span } from "../timeline/spans";
import { Balance } from "./balance";
import type { Pool } from "./tree";

const DAY = 86_400;
const RARELY = 15_000; // ms

/** What each pool held over the last day. */
export function PoolHistory({ pools, devices }: { pools: Pool[]; devices: number }) {
  const found = useLoaded(
    async () => {
      const until = Date.now() / 1000;
      const read = await spansOf(until - DAY, until);
      const first = Math.min(until - 60, ...read.spans.map((span) => span.began));
      return { ...read, since: Math.max(until - DAY, first), until };
    },
    [],
    RARELY,
  );
  const names = pools.filter((pool) => pool.leaf).map((pool) => pool.name);
  const option = useMemo(
    () => ({
      legend: { top: 0, data: names },
      xAxis: { type: "time", min: "dataMin", max: "dataMax" },
      yAxis: { type: "value", minInterval: 1, min: 0 },
      series: names.map((name) => ({
        type: "line",
        name,
        step: "end",
        stack: "held",
        showSymbol: false,
        areaStyle: { opacity: 0.35 },
        data: held(found?.spans ?? [], name, found?.since ?? 0, found?.until ?? 0),
      })),
    }),
    [found, names.join()],
  );
  if (!found?.spans.length) return null;
  return (
    <section class="card" aria-label="Devices by pool over the last day">
      <h2>Devices by pool, last 24 hours</h2>
      <Chart option={option} label={`Devices held by ${names.length} pools over the last day`} />
      <Balance pools={pools} devices={devices} heldBy={(name) => held(found.spans, name, found.since, found.until)} />
    </section>
  );
}

const SAMPLES = 288; // every five minutes of a day

/** Devices that a pool held, sampled: stacked curves need common times. */
function held(spans: readonly Span[], pool: string, since: number, until: number): [number, number][] {
  const own = spans.filter((span) => span.pool === pool);
  return Array.from({ length: SAMPLES + 1 }, (_, at) => {
    const now = since + ((until - since) * at) / SAMPLES;
    const there = own.filter((span) => span.began <= now && (span.ended ?? Infinity) > now);
    const devices = there.reduce((sum, span) => sum + Object.values(span.devices).reduce((some, each) => some + each.length, 0), 0);
    return [1000 * now, devices] as [number, number];
  });
}
