// When a job ends in played futures, in words; as `muster whatif` tells it.
import type { Schemas } from "../../api/client";
import { duration } from "../../format";

type Interval = Schemas["IntervalRecord"];

const NEVER = 90 * 86_400 - 60; // s from now beyond which nothing is played
const WIDEST = 20; // ratio of the ends of an interval beyond which its middle says nothing
const SOON = 60; // s: ends nearer than this count as this far
const NOTICED = 1; // s: differences below it are none

/** "in 2 h", "never", or "unknown" where futures differ too much. */
export function time(of: Interval, now: number): string {
  if (isNever(of.middle, now)) return "never";
  if (of.high - now > WIDEST * Math.max(of.low - now, SOON)) return "unknown";
  return of.middle - now < NOTICED ? "now" : `in ${duration(of.middle - now)}`;
}

/** How much later or earlier it ends. What never ends has no date, and no difference in days. */
export function difference(job: Schemas["WhatIfJob"], now: number): string {
  const { finish_change: change, before_finish: before, after_finish: after } = job;
  if (!change || !before) return "";
  if (isNever(after.middle, now)) return isNever(before.middle, now) ? "never ends" : "no longer ends";
  if (isNever(before.middle, now)) return "ends only then";
  const middle = Math.abs(change.middle) < NOTICED ? "as before" : later(change.middle);
  if ([before, after].some((each) => isNever(each.high, now))) return `${middle}, in some futures never`;
  const [low, high] = [later(change.low), later(change.high)];
  return low === high ? middle : `${middle} (${low} to ${high})`;
}

function isNever(at: number, now: number): boolean {
  return !Number.isFinite(at) || at - now >= NEVER;
}

function later(seconds: number): string {
  if (Math.abs(seconds) < NOTICED) return "0 s";
  return `${duration(Math.abs(seconds))} ${seconds > 0 ? "later" : "earlier"}`;
}
