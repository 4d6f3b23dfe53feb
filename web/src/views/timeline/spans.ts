// Who held which devices when, loaded in pages.
import { api, got, type Schemas } from "../../api/client";

export type Span = Schemas["SpanRecord"];

const PAGES = 8; // of 1,000 spans: more cannot be told apart in a picture

/** The spans of a time, and whether there are more than can be shown. */
export async function spansOf(since: number, until: number): Promise<{ spans: Span[]; cut: boolean }> {
  const spans: Span[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES; page++) {
    const query = { since, until, limit: 1000, ...(cursor ? { cursor } : {}) };
    const found = await got(api.GET("/v1/timeline", { params: { query } }));
    spans.push(...found.spans);
    if (!found.next) return { spans, cut: false };
    cursor = found.next;
  }
  return { spans, cut: true };
}

/** Devices of one node that lie side by side: [first, how many]. */
export function runs(devices: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  for (const device of [...devices].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[0] + last[1] === device) last[1]++;
    else found.push([device, 1]);
  }
  return found;
}
