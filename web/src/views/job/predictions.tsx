import type { JobDetail } from "../../api/client";
import { clock, duration, figure, percent } from "../../format";
import { Table } from "../../ui/table";

const SHOWN = 12;

/** What was predicted, and what came of it. */
export function Predictions({ detail }: { detail: JobDetail }) {
  const found = [...(detail.predictions ?? [])].reverse().slice(0, SHOWN);
  if (!found.length) return null;
  return (
    <Table
      label="Predictions"
      heading="Predictions"
      records={found}
      keyOf={(each) => `${each.at}-${each.what}-${each.real}`}
      columns={[
        { name: "Made", of: (each) => clock(each.at) },
        { name: "Of", of: (each) => each.what },
        { name: "Predicted", of: (each) => text(each.what, each.predicted) },
        { name: "Real", of: (each) => (each.real == null ? "" : text(each.what, each.real)) },
        { name: "Error", number: true, of: (each) => (each.error == null ? "" : percent(each.error)) },
      ]}
    />
  );
}

/** A step takes a time; anything else happens at one. */
function text(what: string, value: number): string {
  if (what !== "step") return clock(value);
  return value < 1 ? `${figure(1000 * value)} ms` : duration(value);
}
