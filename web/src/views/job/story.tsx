import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";

import { api, got, type Job, type Schemas } from "../../api/client";
import { clock, count, duration, moment } from "../../format";
import { refresh, useLive } from "../../live";
import { Command } from "../../ui/command";
import { attempt } from "../../ui/toast";

type JobStory = Schemas["JobStory"];
type StoryLine = Schemas["StoryLine"];
type Advice = Schemas["AdviceRecord"];

const RARELY = 15_000; // ms: a change of the job's own is told at once
const SAY_IT_ALL = ["submitted", "asked", "lost"]; // lines that need no verb

/** What happened to the job and why, what keeps it now, and what would help. */
export function Story({ job }: { job: Job }) {
  const [every, setEvery] = useState(false);
  const story = useMemo(() => signal<JobStory | null>(null), [job.number]);
  // Without advice, which is worked out by deciding again: too much for every look.
  const load = async () => {
    const asked = { params: { path: { which: String(job.number) }, query: { advice: false, every } } };
    story.value = await got(api.GET("/v1/jobs/{which}/story", asked));
  };
  useLive(load, [job.number, job.status, job.workers, job.code, every], RARELY);
  const found = story.value;
  if (!found) return null;
  return (
    <section class="card story" aria-label="Story">
      <div class="card-head">
        <h2>Story</h2>
        {(every || found.lines.some((each) => (each.times ?? 1) > 1)) && (
          <button type="button" class="quiet" aria-pressed={every} onClick={() => setEvery(!every)}>
            {every ? "In short" : "Every line"}
          </button>
        )}
      </div>
      <ol tabIndex={0} aria-label="Story, oldest first">
        {found.lines.map((line) => (
          <li key={`${line.at} ${line.what} ${line.text}`}>
            <time title={moment(line.at)}>{clock(line.at)}</time> {words(line)}
          </li>
        ))}
      </ol>
      {!found.complete && <p><small>The journal no longer has the rest: told by what it held.</small></p>}
      {found.now && found.now !== job.reason && <p>{found.now}</p>}
      {found.rank && !(found.now ?? "").includes(found.rank) && <p>Competes: {found.rank}</p>}
      {job.ended == null && <WouldHelp job={job} key={`${job.status} ${job.workers}`} />}
    </section>
  );
}

/** The changes that would start the job or enlarge it, looked for when asked. */
function WouldHelp({ job }: { job: Job }) {
  const [advice, setAdvice] = useState<Advice[] | null>(null);
  const [busy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    const asked = { params: { path: { which: String(job.number) }, query: { advice: true } } };
    await attempt(async () => setAdvice((await got(api.GET("/v1/jobs/{which}/story", asked))).advice ?? []), "");
    setBusy(false);
  };
  if (advice === null) {
    return (
      <button type="button" class="quiet" disabled={busy} onClick={() => void look()}>
        {busy ? "Trying changes…" : job.status === "waiting" ? "What would start it?" : "What would enlarge it?"}
      </button>
    );
  }
  if (!advice.length) return <p>No single change of its request would help now.</p>;
  return (
    <ul class="advice" aria-label="What would help">
      {advice.map((each) => (
        <li key={`${each.field} ${each.value}`}>
          <b>
            {each.field}: {each.value}
          </b>{" "}
          {`gets ${count(each.workers, "worker")} ${each.at_once ? "at once" : "once others have made way"}${each.again ? ", submitted again" : ""}`}
          <DoIt job={job} advice={each} />
          {each.command && <Command text={each.command} />}
        </li>
      ))}
    </ul>
  );
}

/** Takes an advice that needs no other submission. */
function DoIt({ job, advice }: { job: Job; advice: Advice }) {
  const which = { params: { path: { which: String(job.number) } } };
  const [least, most = least] = advice.value.split("..").map(Number) as [number, number?];
  if (advice.again || !Number.isFinite(least) || !Number.isFinite(most)) return null;
  const acts: Record<string, () => Promise<unknown>> = {
    workers: () => got(api.POST("/v1/jobs/{which}/resize", { ...which, body: { least, most } })),
    priority: () => got(api.PUT("/v1/jobs/{which}/priority", { ...which, body: { priority: least } })),
  };
  const act = acts[advice.field];
  if (!act) return null;
  const done = async () => {
    if (await attempt(act, `${job.name} has ${advice.field} ${advice.value}`)) refresh();
  };
  return (
    <button type="button" class="quiet do-it" aria-label={`Do it: ${advice.field} ${advice.value}`} onClick={() => void done()}>
      Do it
    </button>
  );
}

/** A line as `muster why` prints it. */
function words(line: StoryLine): string {
  if (SAY_IT_ALL.includes(line.what)) return line.text;
  const took = line.seconds == null ? "" : ` ${duration(line.seconds)}`;
  if (line.what === "ended") return took ? `${line.text}, ran for${took} in all` : line.text;
  const what = line.what === "waits" ? "has waited" : line.what;
  return `${what}${took}${line.text ? `: ${line.text}` : ""}`;
}
