import { Chart } from "../../charts/chart";
import type { Pool } from "./tree";

interface Props {
  pools: Pool[];
  /** Devices that a pool held: [ms, devices]. */
  heldBy: (name: string) => [number, number][];
}

/** What pools borrowed and lent: devices held above and below their reservations, as these are now. */
export function Balance({ pools, heldBy }: Props) {
  const reserving = pools.filter((pool) => pool.leaf && reservation(pool) > 0);
  if (!reserving.length) return null;
  const option = {
    legend: { top: 0, data: reserving.map((pool) => pool.name) },
    xAxis: { type: "time", min: "dataMin", max: "dataMax", axisLine: { onZero: false } },
    yAxis: { type: "value", minInterval: 1 },
    series: reserving.map((pool) => ({
      type: "line",
      name: pool.name,
      step: "end",
      showSymbol: false,
      data: heldBy(pool.name).map(([at, devices]) => [at, devices - reservation(pool)]),
    })),
  };
  return (
    <>
      <h2>
        Borrowed and lent <small>devices above and below the reservation</small>
      </h2>
      <Chart option={option} label={`Devices that ${reserving.length} pools borrowed or lent over the last day`} height={200} />
    </>
  );
}

function reservation(pool: Pool): number {
  return pool.quotas.reduce((sum, quota) => sum + (quota.device_type === "*" ? 0 : quota.reservation), 0);
}
