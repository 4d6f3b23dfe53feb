import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Job, Schemas } from "../../api/client";
import { follow } from "../../api/stream";
import { LogLines } from "./log_lines";

const TAIL = 100_000; // bytes of each log that are read at first
const SHOWN = 1000; // lines in the page
const TOGETHER = 100; // ms in which pieces are shown as one

/** Logs of all ranks, as they are written. */
export function Logs({ job, tasks }: { job: Job; tasks: Schemas["JobDetail"]["tasks"] }) {
  const logs = useMemo(() => new LogLines(), [job.number]);
  const version = useMemo(() => signal(0), [job.number]);
  const [task, setTask] = useState("");
  const [search, setSearch] = useState("");
  const began = tasks.length > 0;
  useEffect(() => {
    if (!began) return;
    const stop = new AbortController();
    let due: ReturnType<typeof setTimeout> | undefined;
    const take = (sent: { data: string }) => {
      logs.take(JSON.parse(sent.data));
      due ??= setTimeout(() => {
        due = undefined;
        version.value++;
      }, TOGETHER);
    };
    void follow(`/v1/jobs/${job.number}/logs?follow=true&offset=${-TAIL}`, take, stop.signal, { resumes: true });
    return () => {
      stop.abort();
      clearTimeout(due);
    };
  }, [job.number, began]);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [version.value, task, search]);
  const names = [...new Set(tasks.map((each) => each.task))];
  const lines = logs.matching(task, search).slice(-SHOWN);
  return (
    <section class="card logs" aria-label="Logs">
      <div class="card-head">
        <h2>Logs</h2>
        <select aria-label="Rank" value={task} onChange={(event) => setTask(event.currentTarget.value)}>
          <option value="">all ranks</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <input type="search" placeholder="Search the log" aria-label="Search the log" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </div>
      <pre
        ref={box}
        tabIndex={0}
        aria-label="Log"
        onScroll={(event) => {
          const at = event.currentTarget;
          atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 30;
        }}
      >
        {lines.map((line) => (
          <div key={line.id}>
            {!task && names.length > 1 && <span class="task">{line.task} </span>}
            {line.text}
          </div>
        ))}
        {!lines.length && <span class="none">{began ? "Nothing printed yet." : "It has not started yet."}</span>}
      </pre>
    </section>
  );
}
