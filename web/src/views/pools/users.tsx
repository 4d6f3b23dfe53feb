import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got, type Schemas } from "../../api/client";
import { hours, percent } from "../../format";
import { useLive } from "../../live";

const WEEK = 7 * 86_400;
const RARELY = 30_000; // ms: what is used is charged once a minute

/** Who used what in the last week. */
export function PoolUsers() {
  const report = useMemo(() => signal<Schemas["UsageReport"] | null>(null), []);
  useLive(
    async () => {
      const since = Math.max(0, Date.now() / 1000 - WEEK);
      report.value = await got(api.GET("/v1/usage", { params: { query: { since, by: "pool,user,type" } } }));
    },
    [],
    RARELY,
  );
  const groups = report.value?.groups ?? [];
  if (!groups.length) return null;
  return (
    <section class="card scroll" aria-label="Use in the last week" tabIndex={0}>
      <h2>Who used what in the last 7 days</h2>
      <table>
        <thead>
          <tr>
            <th>Pool</th>
            <th>User</th>
            <th>Devices</th>
            <th class="number">Device-hours</th>
            <th class="number">Idle</th>
            <th class="number">Lost</th>
            <th class="number">Jobs</th>
            <th class="number">Busy</th>
          </tr>
        </thead>
        <tbody>
          {groups.slice(0, 100).map((each) => (
            <tr key={JSON.stringify(each.group)}>
              <td>{each.group.pool}</td>
              <td>{each.group.user}</td>
              <td>{each.group.type}</td>
              <td class="number">{hours(each.device_hours)}</td>
              <td class="number">{hours(each.idle)}</td>
              <td class="number">{hours(each.lost)}</td>
              <td class="number">{each.jobs}</td>
              <td class="number">{each.utilisation == null ? "" : percent(each.utilisation)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
