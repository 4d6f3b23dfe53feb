import { Chart } from "../../charts/chart";
import { go } from "../../router";
import type { Member, Sweep } from "./best";

interface Axis {
  name: string;
  of: (member: Member) => string | number | undefined;
}

/** One line per member through its values to its metric; the best stand out. */
export function Parallel({ sweep, members }: { sweep: Sweep; members: Member[] }) {
  const told = members.filter((each) => each.metrics[sweep.metric] !== undefined);
  if (told.length < 2) return null;
  const axes: Axis[] = [
    ...Object.keys(sweep.over).map((name) => ({ name, of: (member: Member) => member.params[name] })),
    { name: sweep.metric, of: (member: Member) => member.metrics[sweep.metric] },
  ];
  const values = told.map((member) => member.metrics[sweep.metric]!);
  const option = {
    parallelAxis: axes.map((axis, dim) => ({ dim, name: axis.name, ...scale(told.map(axis.of)) })),
    parallel: { left: 40, right: 60, top: 40, bottom: 24 },
    visualMap: {
      show: false,
      dimension: axes.length - 1,
      min: Math.min(...values),
      max: Math.max(...values),
      inRange: { color: sweep.largest ? ["#9aa7ad", "#2f8f9d", "#c2557a"] : ["#c2557a", "#2f8f9d", "#9aa7ad"] },
    },
    tooltip: { show: false },
    series: [
      {
        type: "parallel",
        lineStyle: { width: 2, opacity: 0.7 },
        data: told.map((member) => ({ value: axes.map((axis) => number(axis.of(member))), name: member.name, number: member.number })),
      },
    ],
  };
  return (
    <section class="card">
      <h2>Values and {sweep.metric}</h2>
      <Chart
        height={300}
        option={option}
        label={`Parallel coordinates of ${told.length} members: the table below has the same values`}
        onClick={(found) => {
          const job = (found.data as { number?: number } | undefined)?.number;
          if (job) go(`/jobs/${job}`);
        }}
      />
    </section>
  );
}

/** An axis of numbers, on a logarithm where they span more than a hundredfold; otherwise of words. */
function scale(values: (string | number | undefined)[]) {
  const found = values.map(number);
  if (found.some((value) => typeof value !== "number")) {
    return { type: "category", data: [...new Set(values.map(String))] };
  }
  const sizes = found as number[];
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return { type: least > 0 && most / least > 100 ? "log" : "value", scale: true };
}

function number(value: string | number | undefined): string | number {
  if (typeof value === "number") return value;
  const found = Number(value);
  return value !== undefined && value.trim() !== "" && Number.isFinite(found) ? found : String(value);
}
