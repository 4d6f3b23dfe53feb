import { useMemo } from "preact/hooks";

import { api, got, type Job } from "../../api/client";
import { Chart } from "../../charts/chart";
import { figure } from "../../format";
import { useLoaded } from "../../ui/loaded";
import { Changes } from "./changes";

const OFTEN = 3000; // ms

/** Its curves, kept when it is over: loss and metrics, rate, workers with every change. */
export function Curves({ job }: { job: Job }) {
  const path = { params: { path: { which: String(job.number) } } };
  const found = useLoaded(() => got(api.GET("/v1/jobs/{which}/curves", path)), [job.number], OFTEN);
  const curves = (found?.curves ?? []).filter((curve) => curve.steps.length > 1);
  const rated = curves.find((curve) => curve.rates.some((rate) => rate > 0));
  return (
    <>
      {curves.map((curve) => (
        <Line key={curve.what} title={curve.what} unit="step" xs={curve.steps} ys={curve.values} />
      ))}
      {rated && <Line title="samples/s" unit="time" xs={rated.at.map((at) => 1000 * at).slice(1)} ys={rated.rates.slice(1)} />}
      {found && found.spans.length > 0 && <Changes spans={found.spans} job={job} />}
    </>
  );
}

function Line({ title, unit, xs, ys }: { title: string; unit: "step" | "time"; xs: number[]; ys: number[] }) {
  const option = useMemo(
    () => ({
      xAxis: { type: unit === "time" ? "time" : "value", min: "dataMin", max: "dataMax" },
      yAxis: { type: "value", scale: unit === "step", min: unit === "time" ? 0 : undefined },
      series: [{ type: "line", name: title, showSymbol: false, lineStyle: { width: 2 }, data: xs.map((x, at) => [x, ys[at]]) }],
    }),
    [xs.length, xs.at(-1), ys.at(-1)],
  );
  return (
    <section class="card" aria-label={`Curve of ${title}`}>
      <h2>
        {title} {unit === "step" && <small>by step</small>}
      </h2>
      <Chart option={option} height={200} label={`${title}: ${ys.length} points, last ${figure(ys.at(-1))}`} />
    </section>
  );
}
