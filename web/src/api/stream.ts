// Server-sent events over fetch: EventSource cannot send the session's key.
import { headers } from "./client";

const AGAIN = 1000; // ms before the next try

export interface Sent {
  event: string;
  id: string;
  data: string;
}

/** Whether a stream is connected now, and whether it goes on after the last event that was read. */
interface How {
  connected?: (now: boolean) => void;
  resumes?: boolean;
}

/** Read a stream until it ends or is aborted, while somebody looks at the page; reconnect when it breaks. */
export async function follow(path: string, take: (sent: Sent) => void, signal: AbortSignal, how: How = {}): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    await looked(signal);
    const away = untilHidden(signal);
    try {
      const asked = { ...headers(), Accept: "text/event-stream", ...(how.resumes && last ? { "Last-Event-ID": last } : {}) };
      const answer = await fetch(path, { headers: asked, signal: away.signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 404) return;
      if (answer.ok && answer.body) {
        how.connected?.(true);
        for await (const sent of events(answer.body)) {
          if (sent.event === "end") return;
          if (sent.id) last = sent.id;
          if (sent.event !== "problem" && sent.data) take(sent);
        }
      }
    } catch {
      if (signal.aborted) return;
    } finally {
      away.stop();
    }
    if (away.signal.aborted) continue;
    how.connected?.(false);
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

/** Wait until somebody looks at the page. A browser has six connections to an address for all its tabs: those in
 * the background must not hold them. */
function looked(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

/** A signal that is aborted with another, and when nobody looks at the page any more. */
function untilHidden(signal: AbortSignal): { signal: AbortSignal; stop: () => void } {
  const hidden = new AbortController();
  const look = () => document.hidden && hidden.abort();
  document.addEventListener("visibilitychange", look);
  return { signal: AbortSignal.any([signal, hidden.signal]), stop: () => document.removeEventListener("visibilitychange", look) };
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Sent> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let kept = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (kept + value).split("\n\n");
      kept = blocks.pop() ?? "";
      for (const block of blocks) yield parsed(block);
    }
  } finally {
    reader.releaseLock();
  }
}

function parsed(block: string): Sent {
  const sent: Sent = { event: "message", id: "", data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const name = line.slice(0, at);
    const text = line.slice(at + 1).replace(/^ /, "");
    if (name === "event") sent.event = text;
    else if (name === "id") sent.id = text;
    else if (name === "data") sent.data += sent.data ? `\n${text}` : text;
  }
  return sent;
}
