import { clock, duration } from "../../format";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import type { Span } from "./spans";

const SHOWN = 200;

/** What was decided, newest first, and why. */
export function Decisions({ spans }: { spans: Span[] }) {
  const told = spans.filter((span) => span.number != null);
  const newest = [...told].sort((a, b) => b.began - a.began).slice(0, SHOWN);
  return (
    <Table
      label="What was decided"
      records={newest}
      keyOf={(span) => `${span.began}-${span.number}-${span.status}`}
      columns={[
        { name: "When", of: (span) => clock(span.began) },
        { name: "Job", of: (span) => <a href={`/jobs/${span.number}`}>{span.job}</a> },
        { name: "Then", of: (span) => <Status status={span.status} /> },
        { name: "Workers", number: true, of: (span) => span.workers },
        { name: "Where", of: (span) => Object.keys(span.devices).slice(0, 6).join(", ") },
        { name: "For", of: (span) => (span.ended == null ? "" : duration(span.ended - span.began)) },
        { name: "Why", of: (span) => span.reason },
      ]}
    />
  );
}
