// All nodes and devices, by job.
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";

import { api, got } from "../../api/client";
import { count, percent } from "../../format";
import { useLive } from "../../live";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { Cells } from "./cells";
import { JobsOnIt } from "./jobs_on_it";
import type { ClusterMap } from "./layout";
import { NodePanel } from "./node_panel";

export function Cluster() {
  const map = useMemo(() => signal<ClusterMap | null>(null), []);
  const [lit, setLit] = useState<number | null>(null);
  useLive(async () => {
    const found = await got(api.GET("/v1/map"));
    if (JSON.stringify(found) !== JSON.stringify(map.value)) map.value = found;
  }, []);
  const found = map.value;
  if (!found) return <p role="status">Loading…</p>;
  if (!found.nodes.length) {
    return (
      <Empty title="No nodes yet" commands={["muster token create --agent --node gpu1"]}>
        <p>This prints what to type on the machine that shall be a node; it appears here when it has joined.</p>
      </Empty>
    );
  }
  const chosen = query.value.get("node");
  const asked = Number(query.value.get("job")) || null;
  return (
    <>
      <div class="view-head">
        <h1>Cluster</h1>
        <Totals map={found} />
      </div>
      <div class="cluster">
        <section class="card" aria-label="Devices">
          <Cells map={found} lit={lit ?? asked} onLight={setLit} onNode={(node) => setQuery({ node })} />
          <Legend />
        </section>
        <aside>
          {chosen && <NodePanel name={chosen} onClose={() => setQuery({ node: null })} />}
          <JobsOnIt map={found} lit={lit ?? asked} onLight={setLit} />
          <Troubled map={found} />
        </aside>
      </div>
    </>
  );
}

function Totals({ map }: { map: ClusterMap }) {
  const devices = map.nodes.reduce((sum, node) => sum + node.jobs.length, 0);
  const withheld = map.nodes.reduce((sum, node) => sum + node.promised.filter(Boolean).length, 0);
  const down = map.nodes.filter((node) => node.state !== "up").length;
  return (
    <p class="totals">
      <b>{devices.toLocaleString("en")}</b> devices on {count(map.nodes.length, "node")}, <b>{map.free.toLocaleString("en")}</b> free
      {withheld > 0 && `, ${withheld} withheld`}
      {down > 0 && `, ${count(down, "node")} draining or lost`}
      {map.free > 0 && <span title="Share of the free devices that lie on partly used nodes">; {percent(map.fragmentation)} of the free ones scattered</span>}
    </p>
  );
}

function Legend() {
  return (
    <p class="legend">
      <span class="key free" /> free <span class="key job" /> a job <span class="key hidden-job" /> another user's job{" "}
      <span class="key withheld" /> withheld for a job <span class="key draining" /> draining <span class="key lost" /> lost
    </p>
  );
}

function Troubled({ map }: { map: ClusterMap }) {
  const nodes = map.nodes.filter((node) => node.state !== "up" || node.trouble).slice(0, 50);
  if (!nodes.length) return null;
  return (
    <section class="card">
      <h2>Nodes to look at</h2>
      <ul class="plain">
        {nodes.map((node) => (
          <li key={node.name}>
            <a href={`/cluster?node=${encodeURIComponent(node.name)}`}>{node.name}</a> {node.state}
            {node.trouble && `: ${node.trouble}`}
          </li>
        ))}
      </ul>
    </section>
  );
}
