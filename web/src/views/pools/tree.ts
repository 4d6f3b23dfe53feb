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

/** Devices of its reservation that it does not use now. */
export function lent(quota: Quota): number {
  return Math.max(0, quota.reservation - quota.used);
}
