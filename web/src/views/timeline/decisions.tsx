import { clock, duration, moment } from "../../format";
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
      heading={told.length > SHOWN ? `What was decided: the newest ${SHOWN} of ${told.length.toLocaleString("en")}` : "What was decided"}
      records={newest}
      keyOf={(span) => `${span.began}-${span.number}-${span.status}`}
      columns={[
        { name: "When", of: (span) => <time title={moment(span.began)}>{clock(span.began)}</time> },
        { name: "Job", of: (span) => <a href={`/jobs/${span.number}`}>{span.job}</a> },
        { name: "Then", of: (span) => <Status status={span.status} /> },
        { name: "Workers", number: true, of: (span) => span.workers },
        { name: "Where", of: (span) => Object.keys(span.devices).slice(0, 6).join(", ") },
        { name: "For", number: true, of: (span) => (span.ended == null ? "" : duration(span.ended - span.began)) },
        { name: "Why", of: (span) => span.reason },
      ]}
    />
  );
}
