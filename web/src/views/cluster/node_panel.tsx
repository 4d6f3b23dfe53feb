import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { api, got, type Schemas } from "../../api/client";
import { bytes, figure, fromNow } from "../../format";
import { useLive } from "../../live";
import { Status } from "../../ui/status";
import { Fact } from "../job/facts";

type Node = Schemas["NodeRecord"];

/** One node: what it is, how it is, its link, and the tasks on it. */
export function NodePanel({ name, onClose }: { name: string; onClose: () => void }) {
  const node = useMemo(() => signal<Node | null>(null), [name]);
  useLive(async () => {
    node.value = (await got(api.GET("/v1/nodes/{name}", { params: { path: { name } } }))) as Node;
  }, [name]);
  const found = node.value;
  return (
    <section class="card" aria-label={`Node ${name}`}>
      <div class="card-head">
        <h2>{name}</h2>
        {found && <Status status={found.state} />}
        <button class="quiet" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </div>
      {found && (
        <dl>
          {found.why && <Fact name="Why">{found.why}</Fact>}
          {found.trouble && <Fact name="Trouble">{found.trouble}</Fact>}
          <Fact name="Devices">
            {found.devices} {found.device_type}, {found.free} free
          </Fact>
          <Fact name="Machine">
            {found.cores} cores, {bytes(found.memory)}
          </Fact>
          {found.rack && <Fact name="Rack">{found.rack}</Fact>}
          {found.uplink && <Fact name="Link"><Link uplink={found.uplink} /></Fact>}
          {found.health && <Fact name="Health"><Health health={found.health} /></Fact>}
          {found.since != null && <Fact name="Since">{fromNow(found.since)}</Fact>}
          {found.tasks.map((task) => (
            <Fact key={`${task.number}${task.task}`} name={task.task}>
              <a href={`/jobs/${task.number}`}>{task.job}</a> on {task.devices.join(", ")}
            </Fact>
          ))}
        </dl>
      )}
    </section>
  );
}

function Link({ uplink }: { uplink: NonNullable<Node["uplink"]> }) {
  const learnt = uplink.learnt != null ? `${bytes(uplink.learnt)}/s measured, ` : "";
  return (
    <>
      {learnt}
      {bytes(uplink.claimed)}/s claimed{uplink.odd && "; unlike others of its kind"}
    </>
  );
}

function Health({ health }: { health: NonNullable<Node["health"]> }) {
  const said = [
    health.temperature != null && `${figure(health.temperature)} °C`,
    health.ecc ? `${health.ecc} memory errors` : "",
    health.throttled && `slowed: ${health.throttled}`,
    health.disk_free != null && `${bytes(health.disk_free)} of disk free`,
    health.load != null && `load ${figure(health.load)}`,
  ];
  return <>{said.filter(Boolean).join(", ")}</>;
}
