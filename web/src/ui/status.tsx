// A status by colour and by word.

const KINDS: Record<string, string> = {
  running: "good",
  succeeded: "done",
  finished: "done",
  up: "good",
  failed: "bad",
  lost: "bad",
  waiting: "wait",
  "to come": "wait",
  paused: "wait",
  cancelled: "off",
  skipped: "off",
  pruned: "off",
  stopped: "off",
  ended: "off",
};

export function Status({ status }: { status: string }) {
  return <span class={`status ${KINDS[status] ?? "change"}`}>{status}</span>;
}
