import { useState } from "preact/hooks";

import { api, got, type Job } from "../../api/client";
import { refresh } from "../../live";
import { go } from "../../router";
import { Dialog } from "../../ui/dialog";
import { attempt } from "../../ui/toast";
import { Priority, Resize, STOPPING } from "../queue/actions";

const OVER = ["succeeded", "failed", "cancelled", "skipped", "pruned"];

/** What can be done to the job now. */
export function Buttons({ job }: { job: Job }) {
  const [asking, setAsking] = useState("");
  const close = () => setAsking("");
  const which = { params: { path: { which: String(job.number) } } };
  const act = async (asked: () => Promise<unknown>, done: string) => {
    if (await attempt(asked, done)) refresh();
  };
  const rerun = () =>
    act(async () => {
      const request = await got(api.GET("/v1/jobs/{which}/request", which));
      const again = await got(api.POST("/v1/jobs", { body: request as never }));
      go(`/jobs/${again.number}`);
    }, `${job.name} is submitted again`);
  if (OVER.includes(job.status)) {
    return (
      <button class="quiet" onClick={() => void rerun()}>
        Run again
      </button>
    );
  }
  const held = job.code === "waiting.held";
  return (
    <div class="buttons">
      <button class="quiet" onClick={() => setAsking("resize")}>
        Resize…
      </button>
      <button class="quiet" onClick={() => setAsking("priority")}>
        Priority…
      </button>
      {held ? (
        <button class="quiet" onClick={() => void act(() => got(api.POST("/v1/jobs/{which}/release", which)), `${job.name} is released`)}>
          Release
        </button>
      ) : (
        <button class="quiet" onClick={() => setAsking("hold")}>
          Hold…
        </button>
      )}
      <button class="danger" onClick={() => setAsking("stop")}>
        Stop…
      </button>
      {asking === "stop" && (
        <Dialog title={`Stop ${job.name}?`} confirm="Stop" danger onClose={close} onConfirm={() => void act(() => got(api.DELETE("/v1/jobs/{which}", which)), `${job.name} is stopping`)}>
          <p>{STOPPING}</p>
        </Dialog>
      )}
      {asking === "hold" && (
        <Dialog title={`Hold ${job.name}?`} confirm="Hold" onClose={close} onConfirm={() => void act(() => got(api.POST("/v1/jobs/{which}/hold", which)), `${job.name} is held`)}>
          <p>{job.workers ? "It is stopped, after a checkpoint if it can write one, and waits until it is released." : "It is not started until it is released."}</p>
        </Dialog>
      )}
      {asking === "resize" && (
        <Resize jobs={[job]} onClose={close} onSet={(least, most) => void act(() => got(api.POST("/v1/jobs/{which}/resize", { ...which, body: { least, most } })), `${job.name} asks for ${least}..${most} workers`)} />
      )}
      {asking === "priority" && (
        <Priority jobs={[job]} onClose={close} onSet={(priority) => void act(() => got(api.PUT("/v1/jobs/{which}/priority", { ...which, body: { priority } })), `${job.name} has priority ${priority}`)} />
      )}
    </div>
  );
}
