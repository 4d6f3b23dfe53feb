import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got, type Schemas } from "../../api/client";
import { hours, percent } from "../../format";
import { useLive } from "../../live";
import { Table } from "../../ui/table";

const WEEK = 7 * 86_400;
const SHOWN = 100;
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
    <Table
      label="Use in the last week"
      heading="Who used what in the last 7 days"
      records={groups.slice(0, SHOWN)}
      keyOf={(each) => JSON.stringify(each.group)}
      columns={[
        { name: "Pool", of: (each) => each.group.pool },
        { name: "User", of: (each) => each.group.user },
        { name: "Devices", of: (each) => each.group.type },
        { name: "Device-hours", number: true, of: (each) => hours(each.device_hours) },
        { name: "Idle", number: true, title: "Device-hours held without running: starting, stopping, waiting to restart", of: (each) => hours(each.idle) },
        { name: "Lost", number: true, title: "Device-hours of work done again or in vain", of: (each) => hours(each.lost) },
        { name: "Jobs", number: true, of: (each) => each.jobs },
        { name: "Busy", number: true, title: "How busy its devices were, where nodes tell it", of: (each) => (each.utilisation == null ? "" : percent(each.utilisation)) },
      ]}
    />
  );
}
