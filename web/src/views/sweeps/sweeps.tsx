// Sweeps: all of them, or one as a table, best first, and as parallel coordinates.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got } from "../../api/client";
import { fromNow, moment } from "../../format";
import { useLive } from "../../live";
import { Empty } from "../../ui/empty";
import { Status } from "../../ui/status";
import type { Sweep } from "./best";
import { OneSweep } from "./one_sweep";

export function Sweeps({ rest }: { rest: string[] }) {
  return rest[0] ? <OneSweep which={rest[0]} /> : <All />;
}

function All() {
  const sweeps = useMemo(() => signal<Sweep[] | null>(null), []);
  useLive(async () => {
    sweeps.value = (await got(api.GET("/v1/sweeps"))) as Sweep[];
  }, []);
  const found = sweeps.value;
  if (!found) return <p role="status">Loading…</p>;
  if (!found.length) {
    return (
      <Empty title="No sweeps yet" commands={["muster run train.py --sweep lr=0.1,0.01,0.001 -- --lr {lr}"]}>
        <p>A sweep runs one job for each value of its parameters, and shows the best first.</p>
      </Empty>
    );
  }
  return (
    <>
      <div class="view-head">
        <h1>Sweeps</h1>
      </div>
      <section class="card scroll" aria-label="Sweeps" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>Sweep</th>
              <th>Status</th>
              <th>Members</th>
              <th>Over</th>
              <th>Ranked by</th>
              <th>Submitted</th>
            </tr>
          </thead>
          <tbody>
            {found.map((sweep) => (
              <tr key={sweep.number}>
                <td>
                  <a href={`/sweeps/${sweep.number}`}>{sweep.name}</a> <small>{sweep.number}</small>
                </td>
                <td>
                  <Status status={sweep.status} />
                </td>
                <td>{counted(sweep)}</td>
                <td>{Object.entries(sweep.over).map(([name, values]) => `${name}: ${values}`).join("; ")}</td>
                <td>
                  {sweep.metric}, {sweep.largest ? "largest" : "smallest"} first{sweep.asha && `; ${sweep.asha}`}
                </td>
                <td title={moment(sweep.submitted)}>
                  {fromNow(sweep.submitted)} by {sweep.user}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

export function counted(sweep: Sweep): string {
  const parts = Object.entries(sweep.counts).filter(([, many]) => many);
  return `${sweep.members}: ${parts.map(([what, many]) => `${many} ${what}`).join(", ")}`;
}
