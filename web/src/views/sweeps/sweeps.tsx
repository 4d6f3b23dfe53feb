// Sweeps: all of them, or one as a table, best first, and as parallel coordinates.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got } from "../../api/client";
import { count, fromNow, moment } from "../../format";
import { useLive } from "../../live";
import { Empty } from "../../ui/empty";
import { Loading } from "../../ui/loading";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import type { Sweep } from "./best";
import { OneSweep } from "./one_sweep";

export function Sweeps({ rest }: { rest: string[] }) {
  return rest[0] ? <OneSweep which={rest[0]} /> : <All />;
}

function All() {
  const sweeps = useMemo(() => signal<Sweep[] | null>(null), []);
  useLive(async () => {
    sweeps.value = (await got(api.GET("/v1/sweeps"))) as Sweep[];
  }, []);
  const found = sweeps.value;
  return (
    <>
      <div class="view-head">
        <h1>Sweeps</h1>
      </div>
      {!found && <Loading />}
      {found && !found.length && <None />}
      {found && found.length > 0 && (
        <Table
          label="Sweeps"
          records={found}
          keyOf={(sweep) => sweep.number}
          columns={[
            { name: "Sweep", of: (sweep) => <span><a href={`/sweeps/${sweep.number}`}>{sweep.name}</a> <small>{sweep.number}</small></span> },
            { name: "Status", of: (sweep) => <Status status={sweep.status} /> },
            { name: "Members", of: (sweep) => counted(sweep) },
            { name: "Over", of: (sweep) => Object.entries(sweep.over).map(([name, values]) => `${name}: ${values}`).join("; ") },
            { name: "Ranked by", of: (sweep) => `${sweep.metric}, ${sweep.largest ? "largest" : "smallest"} first${sweep.asha ? `; ${sweep.asha}` : ""}` },
            { name: "Submitted", of: (sweep) => <time title={moment(sweep.submitted)}>{`${fromNow(sweep.submitted)} by ${sweep.user}`}</time> },
          ]}
        />
      )}
    </>
  );
}

function None() {
  return (
    <Empty title="No sweeps yet" commands={["muster run train.py --sweep lr=0.1,0.01,0.001 -- --lr {lr}"]}>
      <p>
        A sweep runs one job for each value of its parameters ({"{lr}"} stands for the value), and shows the best first: by the loss, or by
        what the script gives to <code>muster.report</code>.
      </p>
    </Empty>
  );
}

export function counted(sweep: Sweep): string {
  const parts = Object.entries(sweep.counts).filter(([, many]) => many);
  return `${count(sweep.members, "member")}: ${parts.map(([what, many]) => `${many} ${what}`).join(", ")}`;
}
