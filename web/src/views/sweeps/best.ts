import type { Schemas } from "../../api/client";

// The schema cannot say that a mapping is always there, empty if need be.
export type Member = Required<Schemas["MemberRecord"]>;
export type Sweep = Required<Schemas["SweepRecord"]>;
export interface Detail {
  sweep: Sweep;
  members: Member[];
}

/** Members by a metric, the best first; those without it in order after them. */
export function bestFirst(members: readonly Member[], metric: string, largest: boolean): Member[] {
  const value = (member: Member) => {
    const found = member.metrics[metric];
    return found === undefined ? Infinity : largest ? -found : found;
  };
  return [...members].sort((a, b) => (value(a) === value(b) ? 0 : value(a) - value(b)));
}
