// One job: what it does, why, how fast, where, and what became of it.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got, Refused, type JobDetail } from "../../api/client";
import { useLive } from "../../live";
import { Empty } from "../../ui/empty";
import { Loading } from "../../ui/loading";
import { Status } from "../../ui/status";
import { Buttons } from "./buttons";
import { Configuration } from "./configuration";
import { Curves } from "./curves";
import { Events } from "./events";
import { Facts } from "./facts";
import { Files } from "./files";
import { Forecasts } from "./forecasts";
import { Logs } from "./logs";
import { Plan } from "./plan";
import { Predictions } from "./predictions";
import { Story } from "./story";
import { Tasks } from "./tasks";

export function JobView({ rest }: { rest: string[] }) {
  const which = rest[0] ?? "";
  const detail = useMemo(() => signal<JobDetail | null>(null), [which]);
  const missing = useMemo(() => signal(""), [which]);
  useLive(async () => {
    if (missing.value) return;
    try {
      detail.value = (await got(api.GET("/v1/jobs/{which}", { params: { path: { which } } }))) as JobDetail;
    } catch (error) {
      if (error instanceof Refused && error.problem?.status === 404) missing.value = error.message;
    }
  }, [which]);
  if (missing.value) return (
    <Empty title="Not found">
      <p>{missing.value}</p>
      <p>
        <a href="/">All your jobs</a>
      </p>
    </Empty>
  );
  const found = detail.value;
  if (!found) return <Loading />;
  const { job } = found;
  return (
    <>
      <div class="view-head">
        <h1>
          {job.name} <small>{job.number}</small>
        </h1>
        <Status status={job.status} />
        <span class="grow" />
        <Buttons job={job} />
      </div>
      {job.error && <pre class="card problem">{job.error}</pre>}
      <div class="job-grid">
        <div class="column">
          <Facts detail={found} />
          {job.started != null && <Story job={job} />}
          <Tasks tasks={found.tasks} />
          <Plan detail={found} />
        </div>
        <div class="column">
          {job.started == null && <Story job={job} />}
          <Curves job={job} />
        </div>
        <Logs job={job} tasks={found.tasks} />
        <div class="column">
          <Events detail={found} />
          <Forecasts job={job} />
          <Predictions detail={found} />
        </div>
        <div class="column">
          <Files job={job} />
          <Configuration detail={found} />
        </div>
      </div>
    </>
  );
}
