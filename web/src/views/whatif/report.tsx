import type { Schemas } from "../../api/client";
import { clock, count, duration, percent } from "../../format";
import { Table } from "../../ui/table";

type Figure = Schemas["FigureRecord"];
type Interval = Schemas["IntervalRecord"];

const NEVER = 89 * 86_400; // s from now beyond which nothing is expected: 90 days are played

/** What a change would do: to the whole, and to each job. */
export function Report({ report }: { report: Schemas["WhatIfReport"] }) {
  const figures: [string, Figure, (value: number) => string][] = [
    ["Mean completion", report.completion, signed],
    ["Makespan", report.makespan, signed],
    ["Devices used", report.used, points],
    ["Fragmentation", report.fragmentation, points],
  ];
  return (
    <>
      <p>
        {Object.entries(report.counts).map(([verdict, many]) => `${count(many, "job")} ${verdict}`).join(", ") || "No job is live."}{" "}
        <small>Played in {count(report.worlds, "world")}; intervals of 80 %.</small>
      </p>
      <Table
        label="The whole"
        records={figures}
        keyOf={([name]) => name}
        columns={[
          { name: "", of: ([name]) => <b>{name}</b> },
          { name: "As it is", number: true, of: ([, figure, text]) => level(figure.before, text) },
          { name: "With the change", number: true, of: ([, figure, text]) => level(figure.after, text) },
          { name: "Difference", number: true, of: ([, figure, text]) => <Spread of={figure.change} text={text} /> },
        ]}
      />
      <Table
        label="Each job"
        records={report.jobs}
        keyOf={(job) => job.number}
        columns={[
          { name: "Job", of: (job) => (job.verdict === "new" ? job.name : <a href={`/jobs/${job.number}`}>{job.name}</a>) },
          { name: "Pool", of: (job) => job.pool },
          { name: "Finish", of: (job) => job.verdict },
          { name: "Ends as it is", number: true, of: (job) => (job.before_finish ? ends(job.before_finish, report.now) : "") },
          { name: "With the change", number: true, of: (job) => ends(job.after_finish, report.now) },
          { name: "Difference", number: true, of: (job) => (job.finish_change && !isNever(job.after_finish, report.now) ? <Spread of={job.finish_change} text={signed} /> : "") },
        ]}
      />
    </>
  );
}

function isNever(of: Interval, now: number): boolean {
  return !Number.isFinite(of.middle) || of.middle - now > NEVER;
}

function ends(of: Interval, now: number): string {
  return isNever(of, now) ? "not within 90 d" : clock(of.middle);
}

/** A level of time; one that never comes is not counted in days. */
function level(of: Interval, text: (value: number) => string): string {
  return text === signed && !(of.middle <= NEVER) ? "not within 90 d" : plain(of, text);
}

/** A median, and how far it may be off. */
function Spread({ of, text }: { of: Interval; text: (value: number) => string }) {
  return (
    <>
      {text(of.middle)} <small>{`${text(of.low)} to ${text(of.high)}`}</small>
    </>
  );
}

function signed(seconds: number): string {
  if (Math.abs(seconds) < 1) return "0 s";
  return `${seconds > 0 ? "+" : "−"}${duration(Math.abs(seconds))}`;
}

function points(part: number): string {
  return `${part > 0 ? "+" : part < 0 ? "−" : ""}${percent(Math.abs(part))}`;
}

/** A level, which has no sign of its own. */
function plain(of: Interval, text: (value: number) => string): string {
  return text(of.middle).replace("+", "");
}
