// Numbers and times as people read them.
import { signal } from "@preact/signals";

const TICK = 5000; // ms

/** Changes as time passes: what tells a time from now reads it, and is drawn again. */
const passing = signal(0);
setInterval(() => passing.value++, TICK);

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** 5400 -> "1 h 30 min". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const at = UNITS.findIndex(([size]) => whole >= size);
  if (at < 0) return "0 s";
  const [size, unit] = UNITS[at]!;
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((whole % size) / next[0]) : 0;
  const first = `${Math.floor(whole / size)} ${unit}`;
  return next && rest && at < 2 ? `${first} ${rest} ${next[1]}` : first;
}

/** How long from now: "in 5 min", "3 h ago". */
export function fromNow(at: number | null | undefined): string {
  if (at === null || at === undefined) return "";
  void passing.value;
  const now = Date.now() / 1000;
  return at > now ? `in ${duration(at - now)}` : `${duration(now - at)} ago`;
}

/** A moment that is expected: one that has passed may come any time. */
export function expected(at: number): string {
  void passing.value;
  return at > Date.now() / 1000 ? fromNow(at) : "any moment";
}

/** An interval from now: "in 5 to 20 min"; an end if both are the same in words. */
export function between(low: number, high: number): string {
  void passing.value;
  const now = Date.now() / 1000;
  if (high <= now) return "by now";
  if (low - now < 1) return `within ${duration(high - now)}`;
  const [first, last] = [duration(low - now), duration(high - now)];
  const [many, unit, ...rest] = first.split(" ");
  const alike = !rest.length && last.split(" ").length === 2 && last.endsWith(` ${unit}`);
  return first === last ? `in ${first}` : `in ${alike ? many : first} to ${last}`;
}

/** The moment itself, for titles. */
export function moment(at: number | null | undefined): string {
  return at === null || at === undefined ? "" : new Date(at * 1000).toLocaleString();
}

/** The time of day, with the date if that was another day. */
export function clock(at: number | null | undefined): string {
  if (at === null || at === undefined) return "";
  const then = new Date(at * 1000);
  const today = then.toDateString() === new Date().toDateString();
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  return today ? time : `${then.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`;
}

/** Device-hours: no more figures than anybody pays for. */
export function hours(value: number): string {
  return value > 0 && value < 0.01 ? "< 0.01" : value < 10 ? value.toFixed(2) : figure(value);
}

/** Three figures that matter: 0.0312, 12.4, 1,230. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size && size < 0.001) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

export function percent(part: number): string {
  return `${Math.round(100 * part)} %`;
}

/** "1 job", "3 jobs". */
export function count(many: number, what: string): string {
  return `${many.toLocaleString("en")} ${what}${many === 1 ? "" : "s"}`;
}

/** A command as a shell reads it: words with anything else than letters, digits and a few signs are quoted. */
export function shellLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

const SIZES = ["B", "kB", "MB", "GB", "TB"];

/** 1500000 -> "1.5 MB". */
export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "";
  const at = Math.min(SIZES.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3));
  return `${figure(size / 1000 ** at)} ${SIZES[at]}`;
}
