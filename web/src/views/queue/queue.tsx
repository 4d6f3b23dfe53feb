// Running, waiting and ended jobs; live, filtered by the address.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { useLive } from "../../live";
import { go, query } from "../../router";
import { Empty } from "../../ui/empty";
import { isTyping } from "../../ui/keys";
import { useShownRows } from "../../ui/window";
import { Actions } from "./actions";
import { Filters } from "./filters";
import { JobList } from "./list";
import { COLUMNS, Row } from "./row";
import { filterOf } from "./search";

const NARROW = matchMedia("(max-width: 720px)");

export function Queue() {
  const address = query.value.toString();
  const list = useMemo(() => new JobList(filterOf(query.value)), [address]);
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const box = useRef<HTMLDivElement>(null);
  const height = NARROW.matches ? 92 : 38;
  const jobs = list.jobs.value;
  const shown = useShownRows(box, Math.max(jobs.length, list.total), height);
  useLive(() => list.refresh(shown.first, shown.last), [list]);
  useEffect(() => void list.reach(shown.last).catch(() => undefined), [list, shown.last, list.loaded.value]);
  const focused = useRowKeys(list, setSelected);
  const toggle = useMemo(
    () => (number: number) => setSelected((before) => toggled(before, number)),
    [],
  );
  const many = Math.max(jobs.length, list.total);
  const all = Object.values(list.counts.value).reduce((sum, each) => sum + each, 0);
  return (
    <>
      <div class="view-head">
        <h1>Queue</h1>
        <Filters list={list} />
      </div>
      {selected.size > 0 && <Actions jobs={jobs.filter((job) => selected.has(job.number))} onDone={() => setSelected(new Set())} />}
      {list.loaded.value && !jobs.length && (all || address ? <NoMatch /> : <First />)}
      <div role="table" aria-label="Jobs" aria-rowcount={many + 1} class="jobs" hidden={!jobs.length}>
        <div role="row" class="row head" aria-rowindex={1}>
          {COLUMNS.map((name) => (
            <span role="columnheader" key={name}>
              {name || <span class="hidden">Selected</span>}
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

function toggled(before: ReadonlySet<number>, number: number): ReadonlySet<number> {
  const after = new Set(before);
  if (!after.delete(number)) after.add(number);
  return after;
}

type Select = (change: (before: ReadonlySet<number>) => ReadonlySet<number>) => void;

/** j and k walk, Enter opens, x selects. */
function useRowKeys(list: JobList, select: Select): number {
  const [at, setAt] = useState(-1);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const jobs = list.jobs.value;
      if (isTyping(event) || !jobs.length) return;
      const job = jobs[at];
      if (event.key === "j") setAt(Math.min(at + 1, jobs.length - 1));
      else if (event.key === "k") setAt(Math.max(at - 1, 0));
      else if (event.key === "x" && job) select((before) => toggled(before, job.number));
      else if (event.key === "Enter" && job && event.target === document.body) go(`/jobs/${job.number}`);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [list, at]);
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
    <Empty
      title="No jobs yet"
      commands={["muster run -- sh -c 'for i in 1 2 3 4 5; do echo step $i; sleep 1; done'", "muster run train.py -d 1..4"]}
    >
      <p>Type this in a terminal, and watch the job appear here. The second one is elastic: it grows to four devices while they are free.</p>
    </Empty>
  );
}
