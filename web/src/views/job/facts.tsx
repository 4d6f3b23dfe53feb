import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import { api, got, type Job, type JobDetail } from "../../api/client";
import { between, count, duration, expected, figure, fromNow, hours, moment, percent } from "../../format";
import { useLive } from "../../live";
import { Meter } from "../../ui/meter";

/** The job in figures. */
export function Facts({ detail }: { detail: JobDetail }) {
  const { job } = detail;
  return (
    <section class="card facts" aria-label="Overview">
      {job.reason && <p class="reason">{job.reason}</p>}
      {detail.caveats?.map((text) => <p key={text} class="caveat">{text}</p>)}
      <dl>
        <Fact name="Workers">
          {job.ended != null ? `asked for ${job.asked}` : `${job.workers} of ${job.asked}`}{" "}
          {job.nodes.length > 0 && (
            <a href={`/cluster?job=${job.number}`}>
              on {job.nodes.slice(0, 4).join(", ")}
              {job.nodes.length > 4 && "…"}
            </a>
          )}
        </Fact>
        {job.step != null && (
          <Fact name="Progress">
            {job.steps ? <Meter part={job.step / job.steps} label="Progress" text={`${job.step.toLocaleString("en")} of ${job.steps.toLocaleString("en")} steps`} /> : `step ${job.step.toLocaleString("en")}`}
          </Fact>
        )}
        {job.loss != null && <Fact name="Loss">{figure(job.loss)}</Fact>}
        {job.rate != null && <Fact name="Rate">{figure(job.rate)} samples/s</Fact>}
        {Object.entries(job.metrics ?? {}).filter(([name]) => name !== "loss" || job.loss == null).map(([name, value]) => <Fact key={name} name={name}>{figure(value)}</Fact>)}
        <Fact name="Submitted"><time title={moment(job.submitted)}>{fromNow(job.submitted)} by {job.user}, pool {job.pool}</time></Fact>
        {job.started != null && <Fact name="Started"><time title={moment(job.started)}>{fromNow(job.started)}, after {duration(job.started - job.submitted!)}</time></Fact>}
        {job.ended != null && <Fact name="Ended"><time title={moment(job.ended)}>{fromNow(job.ended)}</time></Fact>}
        {job.ended == null && <Foreseen job={job} />}
        <Fact name="Priority">{job.priority}</Fact>
        <Fact name="Changes">
          {job.resizes} resized, {job.preemptions} preempted, {job.losses} tasks lost; {duration(job.pause ?? 0)} paused
        </Fact>
        <Cost number={job.number} submitted={job.submitted ?? 0} />
        {Object.keys(job.labels ?? {}).length > 0 && (
          <Fact name="Labels">{Object.entries(job.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ")}</Fact>
        )}
      </dl>
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** When it starts and finishes, how sure that is and what it rests on. */
function Foreseen({ job }: { job: Job }) {
  const { rests_on: like, preemption } = job;
  return (
    <>
      {job.started == null && <Expected name="Starts" at={job.predicted_start} low={job.start_low} high={job.start_high} otherwise="unknown" />}
      <Expected name="Finishes" at={job.predicted_finish} low={job.finish_low} high={job.finish_high} otherwise="unknown" />
      {like != null && (like > 0 || job.predicted_finish != null) && <Fact name="Rests on">{like ? count(like, "similar job") : "what it has shown or declared itself"}</Fact>}
      {preemption != null && preemption >= 0.01 && <Fact name="Preemption">{percent(preemption)} likely before it ends</Fact>}
    </>
  );
}

interface Forecast {
  name: string;
  at?: number | null;
  low?: number | null;
  high?: number | null;
  otherwise?: string;
}

function Expected({ name, at, low, high, otherwise = "" }: Forecast) {
  const span = low != null && high != null ? `${between(low, high)}, 80 % likely` : "";
  if (at == null && !span) return otherwise ? <Fact name={name}>{otherwise}</Fact> : null;
  return (
    <Fact name={name}>
      {at != null && <span title={moment(at)}>{expected(at)}</span>} {span && (at == null ? span : <small>{span}</small>)}
    </Fact>
  );
}

const RARELY = 30_000; // ms: what is used is charged once a minute

/** What it has cost so far, as the accounts have it. */
function Cost({ number, submitted }: { number: number; submitted: number }) {
  const spent = useMemo(() => signal<number | null>(null), [number]);
  useLive(async () => {
    const query = { since: submitted, by: "job" };
    const report = await got(api.GET("/v1/usage", { params: { query } }));
    const own = report.groups.find((each) => each.group.job?.split(" ")[0] === String(number) || each.group.job === String(number));
    spent.value = own ? own.device_hours : null;
  }, [number], RARELY);
  if (spent.value === null) return null;
  return <Fact name="Cost">{hours(spent.value)} device-hours</Fact>;
}
