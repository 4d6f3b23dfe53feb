import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";

import { api, got, Refused } from "../../api/client";
import { duration, figure } from "../../format";
import { refresh, useLive } from "../../live";
import { Dialog } from "../../ui/dialog";
import { Empty } from "../../ui/empty";
import { Status } from "../../ui/status";
import { attempt } from "../../ui/toast";
import { bestFirst, type Detail } from "./best";
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
  if (missing.value) return <Empty title="Not found"><p>{missing.value}</p></Empty>;
  const found = detail.value;
  if (!found) return <p role="status">Loading…</p>;
  const { sweep } = found;
  const members = bestFirst(found.members, sweep.metric, sweep.largest);
  const stop = async () => {
    if (await attempt(() => got(api.DELETE("/v1/sweeps/{which}", path)), "stopping")) refresh();
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
      <section class="card scroll" aria-label="Members, best first" tabIndex={0}>
        <h2>
          Members, {sweep.largest ? "largest" : "smallest"} {sweep.metric} first
        </h2>
        <table>
          <thead>
            <tr>
              <th class="number">{sweep.metric}</th>
              {Object.keys(sweep.over).map((name) => (
                <th key={name}>{name}</th>
              ))}
              <th>Job</th>
              <th>Status</th>
              {sweep.asha && <th class="number">Rung</th>}
              <th class="number">Epoch</th>
              <th>Took</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {members.map((each) => (
              <tr key={each.index}>
                <td class="number">{figure(each.metrics[sweep.metric])}</td>
                {Object.keys(sweep.over).map((name) => (
                  <td key={name}>{each.params[name]}</td>
                ))}
                <td>{each.number != null ? <a href={`/jobs/${each.number}`}>{each.name}</a> : each.index}</td>
                <td>
                  <Status status={each.status} />
                </td>
                {sweep.asha && <td class="number">{each.rung}</td>}
                <td class="number">{each.epoch}</td>
                <td>{each.started != null ? duration((each.ended ?? Date.now() / 1000) - each.started) : ""}</td>
                <td>{each.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
