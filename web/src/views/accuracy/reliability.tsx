import { useMemo } from "preact/hooks";

import type { Schemas } from "../../api/client";
import { Chart } from "../../charts/chart";
import { percent } from "../../format";

/** How often outcomes came before each quantile: on the diagonal if forecasts say how sure they are. */
export function Reliability({ points, what }: { points: Schemas["ReliabilityPoint"][]; what: string }) {
  const option = useMemo(() => {
    const axis = (name: string, nameGap: number) => ({ type: "value", min: 0, max: 1, name, nameLocation: "middle", nameGap, axisLabel: { formatter: percent } });
    return {
      grid: { left: 44, right: 24, top: 12, bottom: 40, containLabel: true },
      xAxis: axis("forecast: before this with a probability of", 32),
      yAxis: axis("came before", 52),
      series: [
        { type: "line", name: "ideal", showSymbol: false, silent: true, lineStyle: { type: "dashed", width: 1 }, data: [[0, 0], [1, 1]] },
        { type: "line", name: what, symbolSize: 7, lineStyle: { width: 2 }, data: points.map((each) => [each.said, each.came]) },
      ],
    };
  }, [points, what]);
  if (!points.length) return null;
  const farthest = Math.max(...points.map((each) => Math.abs(each.said - each.came)));
  return (
    <section class="card" aria-label="Reliability">
      <h2>Reliability</h2>
      <Chart option={option} label={`Reliability at ${points.length} quantiles, at most ${percent(farthest)} off`} height={300} />
    </section>
  );
}
