import { api, got, type Job, type Schemas } from "../../api/client";
import { clock, count } from "../../format";
import { useLoaded } from "../../ui/loaded";
import { Table } from "../../ui/table";

const RARELY = 10_000; // ms: a handful are kept in a job's life

/** What was forecast at its submission, start and quarters, against what came. */
export function Forecasts({ job }: { job: Job }) {
  const path = { params: { path: { which: String(job.number) } } };
  const found = useLoaded(() => got(api.GET("/v1/jobs/{which}/forecasts", path)), [job.number], RARELY);
  if (!found?.length) return null;
  return (
    <Table
      label="Forecasts against what came"
      heading="Forecasts against what came"
      records={found}
      keyOf={(each) => `${each.what} ${each.mark}`}
      columns={[
        { name: "Forecast of", of: (each) => each.what },
        { name: "made at", of: (each) => <span title={clock(each.made)}>{each.mark}</span> },
        { name: "Median", of: (each) => clock(each.middle) },
        { name: "80 % interval", of: (each) => (each.low == null ? "" : `${clock(each.low)} to ${clock(each.high)}`) },
        { name: "Rests on", of: (each) => (each.rests_on ? count(each.rests_on, "similar job") : "itself") },
        { name: "Came", of: (each) => <Outcome forecast={each} /> },
      ]}
    />
  );
}

function Outcome({ forecast }: { forecast: Schemas["JobForecastRecord"] }) {
  const { came, low, high } = forecast;
  if (came == null) return null;
  const missed = low != null && high != null && (came < low || came > high);
  return (
    <>
      {clock(came)} {missed && <small>outside</small>}
    </>
  );
}
