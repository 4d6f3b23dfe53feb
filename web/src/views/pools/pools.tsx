// Who may use how much, and does.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import { api, got, type Schemas } from "../../api/client";
import { figure } from "../../format";
import { useLive } from "../../live";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { Meter } from "../../ui/meter";
import { Table, type Column } from "../../ui/table";
import { allowed, borrowed, lent, tree, types, type Branch, type Pool, type Quota } from "./tree";
import { PoolHistory } from "./history";
import { PoolUsers } from "./users";

const RARELY = 15_000; // ms: nodes come and go seldom

/** How many devices of each type there are, on nodes that are not lost. */
function byType(nodes: readonly Pick<Schemas["NodeRecord"], "state" | "device_type" | "devices">[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const node of nodes) if (node.state !== "lost") found.set(node.device_type, (found.get(node.device_type) ?? 0) + node.devices);
  return found;
}

export function Pools() {
  const pools = useMemo(() => signal<Pool[] | null>(null), []);
  useLive(async () => {
    pools.value = await got(api.GET("/v1/pools"));
  }, []);
  const nodes = useLoaded(() => got(api.GET("/v1/nodes")), [], RARELY);
  const devices = useMemo(() => byType(nodes ?? []), [nodes]);
  const found = pools.value;
  if (!found || !nodes) return <Loading />;
  const kinds = types(found);
  const type = query.value.get("type") ?? kinds[0] ?? "";
  return (
    <>
      <div class="view-head">
        <h1>Pools</h1>
        {kinds.length > 1 && (
          <div class="chips" role="group" aria-label="Device types">
            {kinds.map((kind) => (
              <button key={kind} class="chip" aria-pressed={kind === type} onClick={() => setQuery({ type: kind })}>
                {kind}
              </button>
            ))}
          </div>
        )}
      </div>
      <Table label="Quotas and use" records={tree(found)} keyOf={({ pool }) => pool.name} columns={columns(found, type, devices.get(type) ?? 0)} />
      <PoolHistory pools={found} devices={[...devices.values()].reduce((sum, many) => sum + many, 0)} />
      <PoolUsers />
      {found.length === 1 && <Teach pool={found[0]!} devices={devices} />}
    </>
  );
}

/** What is told of each pool, for one type of devices. */
function columns(pools: Pool[], type: string, devices: number): Column<Branch>[] {
  const quota = (pool: Pool) => pool.quotas.find((each) => each.device_type === type);
  const some = (of: (quota: Quota, pool: Pool) => ComponentChildren) => ({ pool }: Branch) => {
    const found = quota(pool);
    return found ? of(found, pool) : "";
  };
  return [
    { name: "Pool", of: (branch) => <Name branch={branch} /> },
    { name: "In use", title: "Of the devices that it may use now", of: some((own, pool) => <Use pool={pool} quota={own} />) },
    { name: "Reserved", number: true, title: "Its own whenever it asks", of: some((own) => own.reservation || "") },
    { name: "Share", number: true, title: "Its part of what is left, against the others' shares", of: some((own) => figure(own.share)) },
    { name: "Limit", number: true, of: some((own) => own.limit ?? "") },
    { name: "Borrowed", number: true, title: "Used beyond its reservation: others may ask them back", of: some((own) => borrowed(own) || "") },
    { name: "Lent", number: true, title: "Of its reservation, used by others", of: some((own, pool) => lent(pool, own, pools, devices) || "") },
    { name: "Running", number: true, of: ({ pool }) => pool.running || "" },
    { name: "Waiting", number: true, of: ({ pool }) => pool.pending || "" },
    { name: "Policy", of: ({ pool }) => pool.policy },
    { name: "Budget", number: true, title: "Device-hours of this month", of: ({ pool }) => (pool.budget != null ? `${figure(pool.budget_used)} of ${figure(pool.budget)} h` : "") },
  ];
}

/** The first pools of teams: what one pool has reserved is freed first, or there is nothing to give. */
function Teach({ pool, devices }: { pool: Pool; devices: ReadonlyMap<string, number> }) {
  const [first] = pool.quotas;
  const half = Math.max(1, Math.floor((devices.get(first?.device_type ?? "") ?? 0) / 2));
  const size = pool.quotas.length > 1 ? `${first!.device_type}:${half}` : half;
  return (
    <Empty title="One pool has everything" commands={[`muster pool set ${pool.name} --reservation 0`, `muster pool set vision --reservation ${size}`]}>
      <p>Free what it reserves, then give a team its own. What the team leaves unused others may borrow, and give back when it asks:</p>
    </Empty>
  );
}

function Name({ branch: { pool, depth } }: { branch: Branch }) {
  return (
    <b class="pool" style={{ paddingLeft: `${1.4 * depth}rem` }}>
      <a href={`/?q=${encodeURIComponent(`pool:${pool.name}`)}`}>{pool.name}</a> {pool.shared && <small>shared</small>}
    </b>
  );
}

function Use({ pool, quota }: { pool: Pool; quota: Quota }) {
  const most = allowed(quota);
  return <Meter part={most ? quota.used / most : 0} label={`Use of ${pool.name}`} text={most ? `${quota.used} of ${most}` : String(quota.used)} />;
}
