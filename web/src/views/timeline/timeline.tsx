// Devices over time: a Gantt picture from the journal, and what was decided when and why.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { useLive } from "../../live";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { Loading } from "../../ui/loading";
import { Decisions } from "./decisions";
import { Gantt } from "./gantt";
import { spansOf, type Span } from "./spans";

const HOURS = [1, 6, 24, 168];
const OFTEN = 5000; // ms

interface Shown {
  spans: Span[];
  cut: boolean;
  since: number;
  until: number;
}

export function Timeline() {
  const hours = Number(query.value.get("hours")) || 1;
  const shown = useMemo(() => signal<Shown | null>(null), [hours]);
  useLive(
    async () => {
      const until = Date.now() / 1000;
      const since = until - hours * 3600;
      const read = await spansOf(since, until);
      // No empty hours before the first job there ever was.
      const first = Math.min(until - 60, ...read.spans.map((span) => span.began));
      shown.value = { ...read, since: Math.max(since, first), until };
    },
    [hours],
    OFTEN,
  );
  const found = shown.value;
  return (
    <>
      <div class="view-head">
        <h1>Timeline</h1>
        <div class="chips" role="group" aria-label="How far back">
          {HOURS.map((each) => (
            <button key={each} class="chip" aria-pressed={each === hours} onClick={() => setQuery({ hours: String(each) })}>
              {each === 168 ? "7 days" : each === 24 ? "a day" : each === 1 ? "an hour" : `${each} hours`}
            </button>
          ))}
        </div>
        {found?.cut && <span>The oldest spans are left out: choose a shorter time.</span>}
      </div>
      {!found && <Loading />}
      {found && !found.spans.length && (
        <Empty title="Nothing ran in this time" commands={["muster run -- sleep 60"]}>
          <p>Every device that a job holds becomes a bar here, with what was decided and why.</p>
        </Empty>
      )}
      {found && found.spans.length > 0 && (
        <>
          <Gantt {...found} />
          <Decisions spans={found.spans} />
        </>
      )}
    </>
  );
}
