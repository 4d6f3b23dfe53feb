// Server-sent events over fetch: EventSource cannot send the session's key.
import { headers } from "./client";

const AGAIN = 1000; // ms before the next try

export interface Sent {
  event: string;
  id: string;
  data: string;
}

/** Read a stream until it ends or is aborted; reconnect after the last event that was read. */
export async function follow(
  path: string,
  take: (sent: Sent) => void,
  signal: AbortSignal,
  connected: (now: boolean) => void = () => {},
): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    try {
      const asked = { ...headers(), Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
      const answer = await fetch(path, { headers: asked, signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 404) return;
      if (answer.ok && answer.body) {
        connected(true);
        for await (const sent of events(answer.body)) {
          if (sent.event === "end") return;
          if (sent.id) last = sent.id;
          if (sent.event !== "problem" && sent.data) take(sent);
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    connected(false);
    await new Promise((done) => setTimeout(done, AGAIN));
  }
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
