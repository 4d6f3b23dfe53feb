import { live } from "../live";

const WORDS = { live: "live", connecting: "connecting", lost: "reconnecting…" };

/** Whether what is shown is current. */
export function LiveMark() {
  return (
    <span class={`live-mark ${live.value}`} role="status">
      {WORDS[live.value]}
    </span>
  );
}
