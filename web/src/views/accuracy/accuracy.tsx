// How forecasts came true.
import { api, got, type Schemas } from "../../api/client";
import { count, figure, percent } from "../../format";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { Table } from "../../ui/table";
import { Reliability } from "./reliability";

type Group = Schemas["AccuracyGroup"];
const KINDS = ["finish", "start"] as const;
const RARELY = 15_000; // ms: scores change when jobs start or end
const NAMES: Record<string, string> = { all: "All", made: "Made at", horizon: "Time left", pool: "Pool", kind: "Rests on" };

export function Accuracy() {
  const what = KINDS.find((each) => each === query.value.get("of")) ?? "finish";
  const found = useLoaded(() => got(api.GET("/v1/accuracy", { params: { query: { what } } })), [what], RARELY);
  return (
    <>
      <div class="view-head">
        <h1>Accuracy</h1>
        <div class="chips" role="group" aria-label="Forecasts of">
          {KINDS.map((each) => (
            <button key={each} class="chip" aria-pressed={each === what} onClick={() => setQuery({ of: each === "finish" ? null : each })}>
              {each}
            </button>
          ))}
        </div>
      </div>
      {!found && <Loading />}
      {found && !found.forecasts && (
        <Empty title="No forecast has come true yet">
          <p>
            Each forecast at submission, at the start and after 25, 50 and 75 % of a run is kept, and scored when the job starts or
            ends. Jobs that somebody stopped do not count. Run a few trainings that report their steps, and look again.
          </p>
        </Empty>
      )}
      {found && found.forecasts > 0 && (
        <>
          <p class="teach">{count(found.forecasts, "forecast")} held against what came. Of the 80 % intervals, 80 % should be right.</p>
          <Reliability points={found.reliability ?? []} what={what} />
          <Coverage groups={found.groups ?? []} />
        </>
      )}
    </>
  );
}

function Coverage({ groups }: { groups: Group[] }) {
  return (
    <Table
      label="Coverage and error"
      records={groups}
      keyOf={(each) => `${each.by} ${each.name}`}
      columns={[
        { name: "By", of: (each) => NAMES[each.by] ?? each.by },
        { name: "Group", of: (each) => (each.by === "all" ? "" : each.name) },
        { name: "Forecasts", number: true, of: (each) => each.forecasts.toLocaleString("en") },
        { name: "Within 80 %", number: true, of: (each) => percent(each.covered) },
        { name: "Came before", number: true, of: (each) => percent(each.early) },
        { name: "Came after", number: true, of: (each) => percent(each.late) },
        { name: "Median error", number: true, of: (each) => percent(each.error) },
        { name: "Bias", number: true, of: (each) => `${each.bias > 0 ? "+" : ""}${percent(each.bias)}` },
        { name: "Width", number: true, of: (each) => `× ${figure(each.width)}` },
      ]}
    />
  );
}
