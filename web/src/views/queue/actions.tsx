// What can be done to several jobs at once.
import { useState } from "preact/hooks";

import { api, got, type Job } from "../../api/client";
import { count } from "../../format";
import { refresh } from "../../live";
import { Dialog } from "../../ui/dialog";
import { say } from "../../ui/toast";

const TOGETHER = 20; // requests at once
type Kind = "stop" | "priority" | "resize";

export const STOPPING = "Their tasks get SIGTERM, and time to write a checkpoint.";

/** The jobs in a title: the name of one, the number of several. */
function named(jobs: Job[]): string {
  return jobs.length === 1 ? jobs[0]!.name : count(jobs.length, "job");
}

const which = (job: Job) => ({ params: { path: { which: String(job.number) } } });

export function Actions({ jobs, onDone }: { jobs: Job[]; onDone: () => void }) {
  const [asking, setAsking] = useState<Kind | null>(null);
  const close = () => setAsking(null);
  const each = async (act: (job: Job) => Promise<unknown>, done: string) => {
    const results: PromiseSettledResult<unknown>[] = [];
    for (let at = 0; at < jobs.length; at += TOGETHER) results.push(...(await Promise.allSettled(jobs.slice(at, at + TOGETHER).map(act))));
    const failed = results.filter((found): found is PromiseRejectedResult => found.status === "rejected");
    for (const reason of new Set(failed.map((found) => (found.reason as Error).message))) say(reason, true);
    if (failed.length < jobs.length) say(`${count(jobs.length - failed.length, "job")} ${done}`);
    onDone();
    refresh();
  };
  return (
    <div class="actions" role="toolbar" aria-label="Selected jobs">
      <b>{count(jobs.length, "job")} selected</b>
      <button onClick={() => setAsking("stop")}>Stop…</button>
      <button onClick={() => setAsking("priority")}>Priority…</button>
      <button onClick={() => setAsking("resize")}>Resize…</button>
      <button class="quiet" onClick={onDone}>
        Clear
      </button>
      {asking === "stop" && (
        <Dialog title={`Stop ${named(jobs)}?`} confirm="Stop" danger onClose={close} onConfirm={() => void each((job) => got(api.DELETE("/v1/jobs/{which}", which(job))), "stopping")}>
          <p>{STOPPING}</p>
          <p>{jobs.slice(0, 8).map((job) => job.name).join(", ")}{jobs.length > 8 ? "…" : ""}</p>
        </Dialog>
      )}
      {asking === "priority" && <Priority jobs={jobs} onClose={close} onSet={(priority) => void each((job) => got(api.PUT("/v1/jobs/{which}/priority", { ...which(job), body: { priority } })), `have priority ${priority}`)} />}
      {asking === "resize" && <Resize jobs={jobs} onClose={close} onSet={(least, most) => void each((job) => got(api.POST("/v1/jobs/{which}/resize", { ...which(job), body: { least, most } })), `ask for ${least}..${most} workers`)} />}
    </div>
  );
}

export function Priority({ jobs, onSet, onClose }: { jobs: Job[]; onSet: (priority: number) => void; onClose: () => void }) {
  const [value, setValue] = useState(String(jobs[0]?.priority ?? 0));
  return (
    <Dialog title={`Priority of ${named(jobs)}`} confirm="Change" onClose={onClose} onConfirm={() => onSet(Number(value))}>
      <label>
        Higher is sooner
        <input type="number" required value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

export function Resize({ jobs, onSet, onClose }: { jobs: Job[]; onSet: (least: number, most: number) => void; onClose: () => void }) {
  const [from = "1", to = from] = (jobs[0]?.asked ?? "1").split("+")[0]!.split("..");
  const [least, setLeast] = useState(from);
  const [most, setMost] = useState(to);
  return (
    <Dialog title={`Resize ${named(jobs)}`} confirm="Resize" onClose={onClose} onConfirm={() => onSet(Number(least), Math.max(Number(least), Number(most)))}>
      <p>
        {jobs.length === 1 && `It has ${count(jobs[0]!.workers, "worker")} now. `}
        Between these numbers Muster decides, by what is free and what others need.
      </p>
      <label>
        Fewest workers
        <input type="number" min="1" required value={least} onInput={(event) => setLeast(event.currentTarget.value)} />
      </label>
      <label>
        Most workers
        <input type="number" min="1" required value={String(Math.max(Number(least), Number(most)) || most)} onInput={(event) => setMost(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
