// Running, waiting and ended jobs; live, filtered by the address.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Job } from "../../api/client";
import { useLive } from "../../live";
import { go, query } from "../../router";
import { Command } from "../../ui/command";
import { Empty } from "../../ui/empty";
import { isTyping } from "../../ui/keys";
import { isNarrow } from "../../ui/narrow";
import { useShownRows } from "../../ui/window";
import { Actions } from "./actions";
import { Filters } from "./filters";
import { JobList } from "./list";
import { COLUMNS, Row } from "./row";
import { filterOf } from "./search";

export function Queue() {
  const address = query.value.toString();
  const list = useMemo(() => new JobList(filterOf(query.value)), [address]);
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const box = useRef<HTMLDivElement>(null);
  const height = isNarrow() ? 112 : 38;
  const last = useRef(list);
  if (list.loaded.value) last.current = list;
  const drawn = last.current; // of the filter before, until the jobs of this one are there: nothing flickers
  const jobs = drawn.jobs.value;
  const many = Math.max(jobs.length, drawn.total);
  const shown = useShownRows(box, many, height);
  useLive(() => list.refresh(shown.first, shown.last), [list]);
  useEffect(() => void list.reach(shown.last).catch(() => undefined), [list, shown.last, list.loaded.value]);
  const focused = useRowKeys(drawn, setSelected);
  const toggle = useMemo(
    () => (number: number) => setSelected((before) => toggled(before, number)),
    [],
  );
  const all = Object.values(drawn.counts.value).reduce((sum, each) => sum + each, 0);
  return (
    <>
      <div class="view-head">
        <h1>Queue</h1>
        <Filters list={drawn} />
      </div>
      {selected.size > 0 && <Actions jobs={jobs.filter((job) => selected.has(job.number))} onDone={() => setSelected(new Set())} />}
      {list.problem.value && (
        <p class="problem" role="alert">
          {list.problem.value}
        </p>
      )}
      {drawn.loaded.value && !jobs.length && (all || address ? <NoMatch /> : <First />)}
      <div role="table" aria-label="Jobs" aria-rowcount={many + 1} class="jobs" hidden={!jobs.length}>
        <div role="row" class="row head" aria-rowindex={1}>
          {COLUMNS.map((name) => (
            <span role="columnheader" key={name} class={name ? "" : "pick"}>
              {name || <All jobs={jobs} selected={selected} onSelect={setSelected} />}
            </span>
          ))}
        </div>
        <div role="rowgroup" ref={box} class="rows" style={{ height: `${many * height}px` }}>
          <div role="presentation" style={{ transform: `translateY(${shown.first * height}px)` }}>
            {jobs.slice(shown.first, shown.last).map((job, at) => (
              <Row
                key={(shown.first + at) % (shown.last - shown.first)}
                job={job}
                at={shown.first + at}
                focused={focused === shown.first + at}
                selected={selected.has(job.number)}
                onSelect={toggle}
              />
            ))}
          </div>
        </div>
      </div>
    </>
  );
}

interface AllProps {
  jobs: Job[];
  selected: ReadonlySet<number>;
  onSelect: (numbers: ReadonlySet<number>) => void;
}

/** Selects every job that is loaded: those of the filter, as far as somebody has scrolled. */
function All({ jobs, selected, onSelect }: AllProps) {
  const all = selected.size > 0 && selected.size === jobs.length;
  return (
    <input
      type="checkbox"
      checked={all}
      aria-label={`Select all ${jobs.length.toLocaleString("en")} listed jobs`}
      onChange={() => onSelect(new Set(all ? [] : jobs.map((job) => job.number)))}
    />
  );
}

function toggled(before: ReadonlySet<number>, number: number): ReadonlySet<number> {
  const after = new Set(before);
  if (!after.delete(number)) after.add(number);
  return after;
}

type Select = (change: (before: ReadonlySet<number>) => ReadonlySet<number>) => void;

/** j and k walk, Enter opens, x selects. */
function useRowKeys(list: JobList, select: Select): number {
  const [at, setAt] = useState(-1);
  const latest = useRef(at); // two keys may come between two drawings
  const walk = (to: number) => setAt((latest.current = to));
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const jobs = list.jobs.value;
      if (isTyping(event) || !jobs.length) return;
      const job = jobs[latest.current];
      if (event.key === "j") walk(Math.min(latest.current + 1, jobs.length - 1));
      else if (event.key === "k") walk(Math.max(latest.current - 1, 0));
      else if (event.key === "x" && job) select((before) => toggled(before, job.number));
      else if (event.key === "Enter" && job && event.target === document.body) go(`/jobs/${job.number}`);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [list]);
  useEffect(() => document.querySelector(".row.focused")?.scrollIntoView({ block: "nearest" }), [at]);
  return at;
}

function NoMatch() {
  return (
    <Empty title="No job matches">
      <p>
        <a href="/">Show all jobs</a>
      </p>
    </Empty>
  );
}

function First() {
  return (
    <Empty title="No jobs yet">
      <p>Type this in a terminal, and watch the job appear here:</p>
      <Command text="muster run -- sh -c 'for i in $(seq 30); do echo step $i; sleep 1; done'" />
      <p>Then a training script of your own. This one is elastic: it runs on one device, and grows to four while they are free.</p>
      <Command text="muster run train.py -d 1..4" />
    </Empty>
  );
}
