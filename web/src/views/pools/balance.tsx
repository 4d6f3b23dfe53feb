import { Chart } from "../../charts/chart";
import type { Pool } from "./tree";

interface Props {
  pools: Pool[];
  /** All devices there are. */
  devices: number;
  /** Devices that a pool held: [ms, devices]. */
  heldBy: (name: string) => [number, number][];
}

/** What pools borrowed and lent: devices held above and below their reservations, as these are now. */
export function Balance({ pools, devices, heldBy }: Props) {
  const leaves = pools.filter((pool) => pool.leaf);
  const reserving = leaves.filter((pool) => reservation(pool) > 0);
  if (!reserving.length || leaves.length < 2) return null; // nobody to borrow from
  const unreserved = Math.max(0, devices - reserving.reduce((sum, pool) => sum + reservation(pool), 0));
  const above = new Map(leaves.map((pool) => [pool.name, heldBy(pool.name).map(([at, devices]) => [at, devices - reservation(pool)] as [number, number])]));
  const option = {
    legend: { top: 0, data: reserving.map((pool) => pool.name) },
    xAxis: { type: "time", min: "dataMin", max: "dataMax", axisLine: { onZero: false } },
    yAxis: { type: "value", minInterval: 1 },
    series: reserving.map((pool) => ({
      type: "line",
      name: pool.name,
      step: "end",
      showSymbol: false,
      data: above.get(pool.name)!.map(([at, own], sample) => [at, Math.max(own, -Math.max(0, taken(above, pool.name, sample) - unreserved))]),
    })),
  };
  return (
    <>
      <h2>
        Borrowed and lent <small>above 0: used beyond the reservation; below: of the reservation, used by others</small>
      </h2>
      <Chart option={option} label={`Devices that ${reserving.length} pools borrowed or lent over the last day`} height={200} />
    </>
  );
}

/** Devices that the other pools held beyond their reservations at one moment. */
function taken(above: Map<string, [number, number][]>, but: string, sample: number): number {
  let sum = 0;
  for (const [name, held] of above) if (name !== but) sum += Math.max(0, held[sample]![1]);
  return sum;
}

function reservation(pool: Pool): number {
  return pool.quotas.reduce((sum, quota) => sum + (quota.device_type === "*" ? 0 : quota.reservation), 0);
}
