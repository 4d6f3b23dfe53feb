import { memo } from "../../ui/memo";
import { me, type Job } from "../../api/client";
import { between, expected, figure, fromNow, moment } from "../../format";
import { Meter } from "../../ui/meter";
import { Status } from "../../ui/status";

interface Props {
  job: Job;
  at: number;
  focused: boolean;
  selected: boolean;
  onSelect: (number: number) => void;
}

export const COLUMNS = ["", "Job", "Status", "Progress", "Workers", "Rate", "Loss", "When", "Why"];

/** One job of the list. Rendered again only if something of it has changed. */
export const Row = memo(function Row({ job, at, focused, selected, onSelect }: Props) {
  return (
    <div role="row" aria-rowindex={at + 2} aria-selected={selected} class={focused ? "row focused" : "row"}>
      <span role="cell" class="pick">
        <input type="checkbox" checked={selected} aria-label={`Select ${job.name}`} onChange={() => onSelect(job.number)} />
      </span>
      <span role="cell" class="name">
        <a href={`/jobs/${job.number}`}>{job.name}</a> <small>{job.number}</small>
        <Owner job={job} />
      </span>
      <span role="cell">
        <Status status={job.status} />
      </span>
      <span role="cell">
        <Progress job={job} />
      </span>
      <span role="cell" class="number" title={`asks for ${job.asked} workers`}>
        {job.workers ? `${job.workers} of ${job.asked}` : job.asked}
      </span>
      <span role="cell" class="number">{job.rate ? `${figure(job.rate)}/s` : ""}</span>
      <span role="cell" class="number">{figure(job.loss)}</span>
      <span role="cell" class="when">
        <When job={job} />
      </span>
      <span role="cell" class="why" title={job.error ?? job.reason}>
        {job.error ? job.error.split("\n", 1)[0] : job.reason}
      </span>
    </div>
  );
});

function Owner({ job }: { job: Job }) {
  const labels = Object.entries(job.labels ?? {});
  return (
    <small class="owner">
      {job.user !== me.value?.user && `${job.user} `}
      {job.pool !== "default" && `in ${job.pool} `}
      {labels.map(([key, value]) => (value ? `${key}=${value}` : key)).join(" ")}
    </small>
  );
}

function Progress({ job }: { job: Job }) {
  if (job.step == null) return null;
  if (job.steps) return <Meter part={job.step / job.steps} label={`Progress of ${job.name}`} />;
  return <span class="number">step {job.step.toLocaleString("en")}</span>;
}

/** When it starts, ends or ended, as the API tells it. */
function When({ job }: { job: Job }) {
  if (job.ended != null) return <time title={moment(job.ended)}>{fromNow(job.ended)}</time>;
  if (job.status === "waiting") {
    const start = job.predicted_start;
    const place = job.position ? `place ${job.position} in line` : "";
    if (start == null) return <Expected verb="starts" low={job.start_low} high={job.start_high} otherwise={place} />;
    return <Expected verb="starts" at={start} low={job.start_low} high={job.start_high} />;
  }
  const running = `for ${fromNow(job.started).replace(" ago", "")}`;
  return <Expected verb="ends" at={job.predicted_finish} low={job.finish_low} high={job.finish_high} otherwise={running} />;
}

interface Forecast {
  verb: string;
  at?: number | null;
  low?: number | null;
  high?: number | null;
  otherwise?: string;
}

/** The median of a forecast with its interval, which stands alone where it is too wide for a median. */
function Expected({ verb, at, low, high, otherwise = "" }: Forecast) {
  const span = low != null && high != null ? between(low, high) : "";
  const title = low != null && high != null ? `${moment(low)} to ${moment(high)} (80 %)` : moment(at);
  if (at == null && !span) return <span title={title}>{otherwise}</span>;
  const middle = at == null ? "" : expected(at);
  return (
    <span title={title}>
      {`${verb} ${middle} `}
      {span && span !== middle && <small>{span}</small>}
    </span>
  );
}
