import { query, setQuery } from "../../router";
import type { JobList } from "./list";

const CHIPS = ["running", "waiting", "succeeded", "failed", "cancelled"];

/** Statuses with their numbers, and the search box. */
export function Filters({ list }: { list: JobList }) {
  const chosen = query.value.getAll("status");
  const counts = list.counts.value;
  const others = Object.keys(counts).filter((each) => !CHIPS.includes(each) && counts[each]);
  const toggle = (status: string) =>
    setQuery({ status: chosen.includes(status) ? chosen.filter((each) => each !== status) : [...chosen, status] });
  return (
    <div class="filters">
      <input
        type="search"
        placeholder="Search: a name, user:ada, pool:lab, label:team=vision"
        aria-label="Search jobs"
        value={query.value.get("q") ?? ""}
        onInput={(event) => setQuery({ q: event.currentTarget.value })}
      />
      <div class="chips" role="group" aria-label="Statuses">
        {[...CHIPS, ...others].map((status) => (
          <button key={status} class="chip" aria-pressed={chosen.includes(status)} onClick={() => toggle(status)}>
            {status} <b>{(counts[status] ?? 0).toLocaleString("en")}</b>
          </button>
        ))}
      </div>
    </div>
  );
}
