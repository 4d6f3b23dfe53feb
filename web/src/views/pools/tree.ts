// Pools as a tree, parents before their children.
import type { Schemas } from "../../api/client";

export type Pool = Schemas["PoolRecord"];
export type Quota = Schemas["QuotaRecord"];

export interface Branch {
  pool: Pool;
  depth: number;
}

/** The pools in the order of a tree, each with its depth. */
export function tree(pools: readonly Pool[]): Branch[] {
  const names = new Set(pools.map((pool) => pool.name));
  const below = (parent: string | null, depth: number): Branch[] =>
    pools
      .filter((pool) => (parent === null ? !names.has(pool.parent) : pool.parent === parent))
      .flatMap((pool) => [{ pool, depth }, ...below(pool.name, depth + 1)]);
  return below(null, 0);
}

/** The types of devices that there are quotas for. */
export function types(pools: readonly Pool[]): string[] {
  return [...new Set(pools.flatMap((pool) => pool.quotas.map((quota) => quota.device_type)))].filter((type) => type !== "*");
}

/** Devices that it uses beyond its reservation, which others may ask back. */
export function borrowed(quota: Quota): number {
  return Math.max(0, quota.used - quota.reservation);
}

/** Devices of its reservation that others use now: what they borrow beyond the devices that nobody has reserved,
 * as far as it leaves that unused. `devices`: all there are of the type. */
export function lent(pool: Pool, quota: Quota, pools: readonly Pool[], devices: number): number {
  const leaves = pools.filter((each) => each.leaf);
  const own = (each: Pool) => each.quotas.find((found) => found.device_type === quota.device_type);
  const unreserved = devices - leaves.reduce((sum, each) => sum + (own(each)?.reservation ?? 0), 0);
  const taken = leaves.reduce((sum, each) => sum + (each.name !== pool.name ? borrowedBy(own(each)) : 0), 0);
  return Math.max(0, Math.min(taken - Math.max(0, unreserved), quota.reservation - quota.used));
}

function borrowedBy(quota: Quota | undefined): number {
  return quota ? borrowed(quota) : 0;
}

/** Devices that it may use now: what it is entitled to, and its reservation whenever it asks. */
export function allowed(quota: Quota): number {
  return Math.max(quota.entitled, quota.reservation);
}
