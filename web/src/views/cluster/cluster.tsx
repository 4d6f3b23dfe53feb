// All nodes and devices, by job.
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";

import { api, got } from "../../api/client";
import { count, percent } from "../../format";
import { useLive } from "../../live";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { memo } from "../../ui/memo";
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
  if (!found) return <Loading />;
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
        <span class="grow" />
        <FindNode nodes={found.nodes} />
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

/** A node by its name, for those who cannot point at it, and where there are thousands. */
const FindNode = memo(function FindNode({ nodes }: { nodes: ClusterMap["nodes"] }) {
  const names = nodes.map((node) => node.name);
  const [wanted, setWanted] = useState(false); // thousands of options are made only for who looks for one
  const typed = (event: { currentTarget: HTMLInputElement }) => {
    const name = event.currentTarget.value.trim();
    if (names.includes(name)) setQuery({ node: name });
  };
  return (
    <>
      <input type="search" class="find" list="nodes" placeholder="Find a node" aria-label="Find a node" onFocus={() => setWanted(true)} onInput={typed} />
      <datalist id="nodes">{wanted && names.map((name) => <option key={name} value={name} />)}</datalist>
    </>
  );
});

const RARELY = 15_000; // ms: quotas change seldom

/** Devices that pools have reserved; one that has everything reserves nothing from others. */
function useReserved(): number {
  const pools = useLoaded(() => got(api.GET("/v1/pools")), [], RARELY)?.filter((pool) => pool.leaf) ?? [];
  const quotas = pools.flatMap((pool) => pool.quotas).filter((quota) => quota.device_type !== "*");
  return pools.length > 1 ? quotas.reduce((sum, quota) => sum + quota.reservation, 0) : 0;
}

function Totals({ map }: { map: ClusterMap }) {
  const reserved = useReserved();
  const devices = map.nodes.reduce((sum, node) => sum + node.jobs.length, 0);
  const withheld = map.nodes.reduce((sum, node) => sum + node.promised.filter(Boolean).length, 0);
  const down = map.nodes.filter((node) => node.state !== "up").length;
  return (
    <p class="totals">
      <b>{devices.toLocaleString("en")}</b> devices on {count(map.nodes.length, "node")}, <b>{map.free.toLocaleString("en")}</b> free
      {withheld > 0 && <span title="Promised to jobs that wait for them">, {withheld} withheld</span>}
      {reserved > 0 && (
        <>
          , {reserved.toLocaleString("en")} <a href="/pools">reserved by pools</a>
        </>
      )}
      {down > 0 && `, ${count(down, "node")} draining or lost`}
      {map.free > 0 && map.free < devices && <span title="Share of the free devices that lie on partly used nodes">; {percent(map.fragmentation)} of the free ones scattered</span>}
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
