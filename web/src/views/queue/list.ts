// The jobs of a filter, loaded in parts as they are scrolled to, and kept current by difference.
import { signal } from "@preact/signals";

import { api, got, Refused, type Job } from "../../api/client";

const FIRST = 100; // jobs loaded at first, and looked at again while they are in view
const MORE = 1000; // jobs loaded at once where somebody scrolls
const ENDED = new Set(["succeeded", "failed", "cancelled", "skipped", "pruned"]);

export interface Filter {
  status: string[];
  user?: string;
  pool?: string;
  name?: string;
  label: string[];
}

type Query = Partial<Record<keyof Filter, string | string[]>>;

/** The filter as the API's parameters. */
function asked(filter: Filter): Query {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined && value.length > 0));
}

/** Jobs with tasks, then waiting, then ended ones: as the API sorts them. */
function group(job: Job): number {
  return job.status === "waiting" ? 1 : ENDED.has(job.status) ? 2 : 0;
}

function order(a: Job, b: Job): number {
  return group(a) - group(b) || b.number - a.number;
}

/** Where the API's page after a job begins. */
function cursorAfter(job: Job): string {
  return `${group(job)}-${job.number}`;
}

/** Whether a job comes after a cursor. */
function isAfter(job: Job, cursor: string): boolean {
  const [place, number] = cursor.split("-").map(Number) as [number, number];
  return group(job) > place || (group(job) === place && job.number < number);
}

export class JobList {
  /** Those that are loaded, in order. A job that has not changed is the same object as before. */
  readonly jobs = signal<Job[]>([]);
  readonly counts = signal<Record<string, number>>({});
  readonly loaded = signal(false);
  /** Why the daemon refuses the filter; empty: it does not. */
  readonly problem = signal("");
  private known = new Map<number, Job>();
  /** Where the part that is not loaded begins; null: all is. */
  private rest: string | null = null;
  private loading = false;

  constructor(private readonly filter: Filter) {}

  /** How many jobs the filter matches. */
  get total(): number {
    const wanted = this.filter.status;
    const all = Object.entries(this.counts.value);
    return all.reduce((sum, [status, many]) => (!wanted.length || wanted.includes(status) ? sum + many : sum), 0);
  }

  /** Load what is in view again, and how many there are: rows from `first` to `last`. */
  async refresh(first: number, last: number): Promise<void> {
    try {
      await this.look(first, last);
      this.problem.value = "";
    } catch (error) {
      if (error instanceof Refused && error.problem?.status === 422) this.problem.value = error.message;
    }
  }

  private async look(first: number, last: number): Promise<void> {
    const before = this.jobs.value[first - 1];
    if (before) {
      await this.load(undefined, 1); // the counts come with the first page
      await this.load(cursorAfter(before), Math.min(MORE, last - first + 1));
    } else {
      // Rows in view that are not loaded yet come with `reach`.
      const next = await this.load(undefined, Math.max(FIRST, first ? 0 : Math.min(last, MORE)));
      if (!this.loaded.value) this.rest = next;
    }
    this.loaded.value = true;
  }

  /** Load on until a row is there. */
  async reach(row: number): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      while (this.rest !== null && this.jobs.value.length < row) this.rest = await this.load(this.rest, MORE);
    } finally {
      this.loading = false;
    }
  }

  private async load(cursor: string | undefined, limit: number): Promise<string | null> {
    const query = { ...asked(this.filter), order: "active", limit, ...(cursor ? { cursor } : {}) };
    const found = await got(api.GET("/v1/jobs", { params: { query: query as never } }));
    if (!cursor) this.counts.value = found.counts ?? {};
    const next = found.next ?? null;
    this.take(found.jobs as Job[], cursor, next);
    return next;
  }

  /** Take in a part; what is known to lie within it and is not there has left the filter. */
  private take(jobs: Job[], from: string | undefined, to: string | null): void {
    const there = new Set(jobs.map((job) => job.number));
    let changed = false;
    for (const job of this.jobs.value) {
      const within = (!from || isAfter(job, from)) && !(to && isAfter(job, to));
      if (within && !there.has(job.number)) changed = this.known.delete(job.number) || changed;
    }
    for (const job of jobs) {
      const before = this.known.get(job.number);
      if (before && JSON.stringify(before) === JSON.stringify(job)) continue;
      this.known.set(job.number, job);
      changed = true;
    }
    if (changed) this.jobs.value = [...this.known.values()].sort(order);
  }
}
