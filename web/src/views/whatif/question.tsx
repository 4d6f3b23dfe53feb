import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { api, got } from "../../api/client";
import { useLoaded } from "../../ui/loaded";
import type { Body } from "./whatif";

const RARELY = 60_000; // ms: names change seldom
const LIVE = ["running" as const, "waiting" as const];
const OFFERED = 100; // live jobs to choose from; others are typed

interface Props {
  busy: boolean;
  onAsk: (body: Body) => void;
}

/** The changes to ask about; those left empty are none. */
export function Question({ busy, onAsk }: Props) {
  const [policy, setPolicy] = useState("");
  const [drained, setDrained] = useState("");
  const [added, setAdded] = useState("0");
  const [like, setLike] = useState("");
  const [job, setJob] = useState("");
  const [priority, setPriority] = useState("");
  const [workers, setWorkers] = useState("");
  const [hours, setHours] = useState("1");
  const nodes = useLoaded(() => got(api.GET("/v1/nodes")), [], RARELY) ?? [];
  const policies = useLoaded(() => got(api.GET("/v1/policy")), [], RARELY)?.policies ?? [];
  const jobs = useLoaded(() => got(api.GET("/v1/jobs", { params: { query: { status: LIVE, limit: OFFERED } } })), [], RARELY)?.jobs ?? [];
  const names = nodes.map((node) => node.name);
  const body = asked({ policy, drained, added: Number(added), like: like || (names[0] ?? ""), job, priority, workers: Number(workers), hours: Number(hours) }, names);
  const submit = (event: Event) => {
    event.preventDefault();
    if (body) onAsk(body);
  };
  return (
    <form class="card question" aria-label="Changes" onSubmit={submit}>
      <Group name="Scheduling">
        <Choice label="Policy" value={policy} none="as it is" options={policies} onChange={setPolicy} />
      </Group>
      <Group name="Nodes">
        <Choice label="Drain node" value={drained} none="none" options={names} onChange={setDrained} />
        <Field label="Add nodes" number value={added} onChange={setAdded} />
        <Choice label="like" value={like || (names[0] ?? "")} options={names} onChange={setLike} />
      </Group>
      <Group name="A new job">
        <Field label="Workers" number value={workers} onChange={setWorkers} />
        <Field label="Hours" number value={hours} onChange={setHours} />
      </Group>
      <Group name="A live job">
        <Field label="Name or number" value={job} list="live-jobs" onChange={setJob} />
        <Field label="Priority" number value={priority} onChange={setPriority} />
        <datalist id="live-jobs">
          {jobs.map((each) => (
            <option key={each.number} value={each.number}>
              {each.name}
            </option>
          ))}
        </datalist>
      </Group>
      <button type="submit" disabled={busy || !body}>
        {busy ? "Playing…" : "What would happen?"}
      </button>
      {!body && <p class="note">Fill in at least one change{job && !priority ? ": the priority of the live job" : ""}.</p>}
    </form>
  );
}

function Group({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <fieldset>
      <legend>{name}</legend>
      {children}
    </fieldset>
  );
}

interface Given {
  policy: string;
  drained: string;
  added: number;
  like: string;
  job: string;
  priority: string;
  workers: number;
  hours: number;
}

/** The request of what was filled in; null: nothing was. */
function asked(given: Given, known: string[]): Body | null {
  const body: Partial<Body> = {};
  if (given.policy) body.policy = given.policy;
  if (given.drained) body.drain = [{ names: [given.drained] }];
  if (given.added > 0 && given.like) body.add = [{ names: fresh(given.added, known), like: given.like }];
  if (given.job && given.priority) body.priorities = { [given.job]: Number(given.priority) };
  if (given.workers > 0) {
    const roles = { worker: { count: given.workers } };
    body.submit = [{ job: { name: "what-if", command: ["true"], roles, duration: `${given.hours}h` } }];
  }
  return Object.keys(body).length ? ({ ...body, worlds: 16, seed: 0 } as Body) : null;
}

/** Names that no node has. */
function fresh(many: number, known: string[]): string[] {
  const taken = new Set(known);
  const found: string[] = [];
  for (let at = 1; found.length < many; at++) if (!taken.has(`new${at}`)) found.push(`new${at}`);
  return found;
}

interface Written {
  label: string;
  value: string;
  onChange: (value: string) => void;
}

function Field({ label, value, number = false, list, onChange }: Written & { number?: boolean; list?: string }) {
  const typed = (event: { currentTarget: HTMLInputElement }) => onChange(event.currentTarget.value);
  return (
    <label>
      {label}
      {number ? <input type="number" min="0" value={value} onInput={typed} /> : <input value={value} list={list} onInput={typed} />}
    </label>
  );
}

function Choice({ label, value, options, none, onChange }: Written & { options: string[]; none?: string }) {
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {none && <option value="">{none}</option>}
        {options.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}
