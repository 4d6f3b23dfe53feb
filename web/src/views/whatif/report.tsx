import type { Schemas } from "../../api/client";
import { count, duration, moment, percent } from "../../format";
import { Table } from "../../ui/table";
import { difference, time } from "./times";

type Report = Schemas["WhatIfReport"];
type Figure = Schemas["FigureRecord"];
type Interval = Schemas["IntervalRecord"];
type Told = (value: number) => string;

const ORDER = ["new", "never", "later", "earlier", "unclear", "same"]; // what needs attention first
const SAID: Record<string, string> = { new: "new", never: "never ends", later: "later", earlier: "earlier", unclear: "unclear", same: "as before" };

/** What a change would do: to the whole, and to each job. */
export function Report({ report }: { report: Report }) {
  const figures: [string, Figure, Told, Told][] = [
    ["Mean completion", report.completion, duration, signed],
    ["Last job ends after", report.makespan, duration, signed],
    ["Devices in use", report.used, percent, points],
    ["Devices free in pieces", report.fragmentation, percent, points],
    ...Object.entries(report.pools ?? {}).map(([name, own]): [string, Figure, Told, Told] => [`Pool ${name}, devices`, own, devices, more]),
  ];
  const jobs = [...report.jobs].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict) || a.number - b.number);
  return (
    <>
      <p>
        {verdicts(report)} <small>Played in {count(report.worlds, "future")} on each side; intervals of 80 %.</small>
        {report.counts.unclear ? <small> Unclear: earlier in some futures, later in others.</small> : null}
        {report.counts.never ? <small> Means and the last end are of the jobs that end on both sides.</small> : null}
      </p>
      <Table
        label="The whole"
        records={figures}
        keyOf={([name]) => name}
        columns={[
          { name: "Figure", of: ([name]) => <b>{name}</b> },
          { name: "As it is", number: true, of: ([, own, text]) => text(own.before.middle) },
          { name: "With the change", number: true, of: ([, own, text]) => text(own.after.middle) },
          { name: "Difference", number: true, of: ([, own, , text]) => <Spread of={own.change} text={text} /> },
        ]}
      />
      <Table
        label="Each job"
        records={jobs}
        keyOf={(job) => job.number}
        columns={[
          { name: "Job", of: (job) => (job.verdict === "new" ? job.name : <a href={`/jobs/${job.number}`}>{job.name}</a>) },
          { name: "Pool", of: (job) => job.pool },
          { name: "Ends", of: (job) => SAID[job.verdict] ?? job.verdict },
          { name: "As it is", number: true, of: (job) => (job.before_finish ? <When of={job.before_finish} now={report.now} /> : "") },
          { name: "With the change", number: true, of: (job) => <When of={job.after_finish} now={report.now} /> },
          { name: "Difference", number: true, of: (job) => difference(job, report.now) },
        ]}
      />
    </>
  );
}

function verdicts(report: Report): string {
  const told = ORDER.filter((each) => report.counts[each]).map((each) => `${count(report.counts[each]!, "job")} ${SAID[each]}`);
  return told.length ? `${told.join(", ")}.` : "No job is live.";
}

function When({ of, now }: { of: Interval; now: number }) {
  const text = time(of, now);
  return <span title={text.startsWith("in ") ? moment(of.middle) : undefined}>{text}</span>;
}

/** A median, and how far it may be off. */
function Spread({ of, text }: { of: Interval; text: Told }) {
  const [middle, low, high] = [text(of.middle), text(of.low), text(of.high)];
  return (
    <>
      {middle} {low !== high && <small>{`(${low} to ${high})`}</small>}
    </>
  );
}

function signed(seconds: number): string {
  return Math.abs(seconds) < 1 ? "0 s" : sign(seconds) + duration(Math.abs(seconds));
}

function points(part: number): string {
  const text = percent(Math.abs(part));
  return text === percent(0) ? text : sign(part) + text;
}

function devices(many: number): string {
  return String(Math.round(10 * many) / 10);
}

function more(many: number): string {
  const text = devices(Math.abs(many));
  return text === "0" ? text : sign(many) + text;
}

function sign(value: number): string {
  return value > 0 ? "+" : "−";
}
