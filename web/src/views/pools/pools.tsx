// Who may use how much, and does.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got } from "../../api/client";
import { figure } from "../../format";
import { useLive } from "../../live";
import { query, setQuery } from "../../router";
import { Meter } from "../../ui/meter";
import { borrowed, lent, tree, types, type Branch, type Pool, type Quota } from "./tree";
import { PoolHistory } from "./history";
import { PoolUsers } from "./users";

export function Pools() {
  const pools = useMemo(() => signal<Pool[] | null>(null), []);
  useLive(async () => {
    pools.value = await got(api.GET("/v1/pools"));
  }, []);
  const found = pools.value;
  if (!found) return <p role="status">Loading…</p>;
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
      <section class="card scroll" aria-label="Quotas and use" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>Pool</th>
              <th>Used of entitled</th>
              <th class="number">Reserved</th>
              <th class="number">Share</th>
              <th class="number">Limit</th>
              <th class="number">Borrowed</th>
              <th class="number">Lent</th>
              <th class="number">Running</th>
              <th class="number">Waiting</th>
              <th>Policy</th>
              <th class="number">Budget</th>
            </tr>
          </thead>
          <tbody>
            {tree(found).map((branch) => (
              <Row key={branch.pool.name} branch={branch} quota={branch.pool.quotas.find((each) => each.device_type === type)} />
            ))}
          </tbody>
        </table>
      </section>
      <PoolHistory pools={found} />
      <PoolUsers />
      {found.length === 1 && (
        <p class="teach">
          One pool has everything. Give a team its own: <code>muster pool set vision --reservation 2 --share 2</code>
        </p>
      )}
    </>
  );
}

function Row({ branch: { pool, depth }, quota }: { branch: Branch; quota?: Quota }) {
  const used = quota?.used ?? 0;
  const entitled = quota?.entitled ?? 0;
  return (
    <tr>
      <th scope="row" style={{ paddingLeft: `${0.6 + 1.4 * depth}rem` }}>
        <a href={`/?q=${encodeURIComponent(`pool:${pool.name}`)}`}>{pool.name}</a> {pool.shared && <small>shared</small>}
      </th>
      <td>
        <Meter part={entitled ? used / entitled : 0} label={`Use of ${pool.name}`} text={`${used} of ${entitled}`} />
      </td>
      <td class="number">{quota?.reservation || ""}</td>
      <td class="number">{quota ? figure(quota.share) : ""}</td>
      <td class="number">{quota?.limit ?? ""}</td>
      <td class="number">{(quota && borrowed(quota)) || ""}</td>
      <td class="number">{(quota && lent(quota)) || ""}</td>
      <td class="number">{pool.running || ""}</td>
      <td class="number">{pool.pending || ""}</td>
      <td>{pool.policy}</td>
      <td class="number">{pool.budget != null ? `${figure(pool.budget_used)} of ${figure(pool.budget)} h` : ""}</td>
    </tr>
  );
}
