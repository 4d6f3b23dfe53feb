import { useState } from "preact/hooks";

import { api, got, me, type Schemas } from "../../api/client";
import { fromNow } from "../../format";
import { refresh } from "../../live";
import { Dialog } from "../../ui/dialog";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";
import { attempt } from "../../ui/toast";

type Node = Schemas["NodeRecord"];

/** All nodes; administrators drain and resume them. */
export function Nodes() {
  const nodes = useLoaded(async () => (await got(api.GET("/v1/nodes"))) as Node[], [], 5000);
  const [draining, setDraining] = useState("");
  if (!nodes) return <Loading />;
  const path = (name: string) => ({ params: { path: { name } } });
  const act = async (asked: () => Promise<unknown>, done: string) => {
    if (await attempt(asked, done)) refresh();
  };
  return (
    <>
      <Table
        label="Nodes"
        records={nodes}
        keyOf={(node) => node.name}
        columns={[
          { name: "Node", of: (node) => <a href={`/cluster?node=${encodeURIComponent(node.name)}`}>{node.name}</a> },
          { name: "State", of: (node) => <Status status={node.state} /> },
          { name: "Devices", of: (node) => `${node.devices} ${node.device_type}` },
          { name: "Free", number: true, of: (node) => node.free },
          { name: "Jobs", of: (node) => node.jobs.join(", ") },
          { name: "Rack", of: (node) => node.rack },
          { name: "Since", of: (node) => fromNow(node.since) },
          { name: "Why", of: (node) => node.trouble || node.why },
          {
            name: "",
            of: (node) =>
              me.value?.admin &&
              (node.state === "up" ? (
                <button class="quiet" onClick={() => setDraining(node.name)}>
                  Drain…
                </button>
              ) : (
                <button class="quiet" onClick={() => void act(() => got(api.POST("/v1/nodes/{name}/resume", path(node.name))), `${node.name} is in use again`)}>
                  Resume
                </button>
              )),
          },
        ]}
      />
      {draining && (
        <Dialog title={`Drain ${draining}?`} confirm="Drain" onClose={() => setDraining("")} onConfirm={() => void act(() => got(api.POST("/v1/nodes/{name}/drain", path(draining))), `${draining} is draining`)}>
          <p>It gets no new tasks; elastic jobs move off it, others finish.</p>
        </Dialog>
      )}
    </>
  );
}
