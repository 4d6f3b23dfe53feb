// What a change would do: asked, played with and without it, and told before anything is changed.
import { useState } from "preact/hooks";

import { api, got, type Schemas } from "../../api/client";
import { Empty } from "../../ui/empty";
import { Meter } from "../../ui/meter";
import { attempt } from "../../ui/toast";
import { Question } from "./question";
import { Report } from "./report";

export type Body = Schemas["WhatIfBody"];
type Answer = Schemas["WhatIfRecord"];

const OFTEN = 500; // ms: a world of a small cluster takes less

export function WhatIf() {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const busy = answer !== null && !answer.report && !answer.problem;
  const ask = (body: Body) =>
    void attempt(async () => {
      let found = (await got(api.POST("/v1/what-if", { body }))) as Answer;
      setAnswer(found);
      while (!found.report && !found.problem) {
        await new Promise((done) => setTimeout(done, OFTEN));
        found = await got(api.GET("/v1/what-if/{key}", { params: { path: { key: found.id } } }));
        setAnswer(found);
      }
    }, "");
  return (
    <>
      <div class="view-head">
        <h1>What if</h1>
      </div>
      <Question busy={busy} onAsk={ask} />
      {answer === null && (
        <Empty title="Ask before you change anything" commands={["muster policy set tiresias --dry-run"]}>
          <p>
            Fill in a change above: the futures of all live jobs are played with and without it, and you see who would end earlier or
            later. Nothing is changed. The same from a terminal:
          </p>
        </Empty>
      )}
      {busy && (
        <p role="status">
          <Meter part={answer.of ? answer.done / answer.of : 0} label="Futures played" text={`${answer.done} of ${answer.of} futures`} />
        </p>
      )}
      {answer?.problem && <p class="card problem" role="alert">{answer.problem}</p>}
      {answer?.report && <Report report={answer.report} />}
    </>
  );
}
