import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";

import { api, got, Refused } from "../../api/client";
import { duration, figure } from "../../format";
import { refresh, useLive } from "../../live";
import { Dialog } from "../../ui/dialog";
import { Empty } from "../../ui/empty";
import { Loading } from "../../ui/loading";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import { attempt } from "../../ui/toast";
import { bestFirst, type Detail, type Member } from "./best";
import { Parallel } from "./parallel";
import { counted } from "./sweeps";

export function OneSweep({ which }: { which: string }) {
  const detail = useMemo(() => signal<Detail | null>(null), [which]);
  const missing = useMemo(() => signal(""), [which]);
  const path = { params: { path: { which } } };
  useLive(async () => {
    if (missing.value) return;
    try {
      detail.value = (await got(api.GET("/v1/sweeps/{which}", path))) as Detail;
    } catch (error) {
      if (error instanceof Refused && error.problem?.status === 404) missing.value = error.message;
    }
  }, [which]);
  const [asking, setAsking] = useState(false);
  if (missing.value) return (
    <Empty title="Not found">
      <p>{missing.value}</p>
      <p>
        <a href="/sweeps">All your sweeps</a>
      </p>
    </Empty>
  );
  const found = detail.value;
  if (!found) return <Loading />;
  const { sweep } = found;
  const members = bestFirst(found.members, sweep.metric, sweep.largest);
  const stop = async () => {
    if (await attempt(() => got(api.DELETE("/v1/sweeps/{which}", path)), `${sweep.name} is stopping`)) refresh();
  };
  return (
    <>
      <div class="view-head">
        <h1>
          {sweep.name} <small>{sweep.number}</small>
        </h1>
        <Status status={sweep.status} />
        <span>{counted(sweep)}</span>
        <span class="grow" />
        {sweep.ended == null && (
          <button class="danger" onClick={() => setAsking(true)}>
            Stop…
          </button>
        )}
        {asking && <Dialog title={`Stop ${sweep.name}?`} confirm="Stop" danger onClose={() => setAsking(false)} onConfirm={() => void stop()} />}
      </div>
      <Parallel sweep={sweep} members={members} />
      {members.every((each) => each.metrics[sweep.metric] === undefined) && (
        <p class="teach">
          No member has reported its {sweep.metric} yet. A script does with <code>muster.report({sweep.metric}=…)</code>; a training of Muster's runtime
          reports its loss by itself.
        </p>
      )}
      <Table
        label="Members, best first"
        heading={`Members, ${sweep.largest ? "largest" : "smallest"} ${sweep.metric} first`}
        records={members}
        keyOf={(each) => each.index}
        columns={[
          { name: sweep.metric, number: true, of: (each) => figure(each.metrics[sweep.metric]) },
          ...Object.keys(sweep.over).map((name) => ({ name, of: (each: Member) => each.params[name] })),
          { name: "Job", of: (each) => (each.number != null ? <a href={`/jobs/${each.number}`}>{each.name}</a> : each.index) },
          { name: "Status", of: (each) => <Status status={each.status} /> },
          Boolean(sweep.asha) && { name: "Rung", number: true, of: (each: Member) => each.rung },
          { name: "Epoch", number: true, of: (each) => each.epoch },
          { name: "Took", number: true, of: (each) => (each.started != null ? duration((each.ended ?? Date.now() / 1000) - each.started) : "") },
          { name: "Why", of: (each) => each.reason },
        ]}
      />
    </>
  );
}
