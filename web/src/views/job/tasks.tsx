import type { Schemas } from "../../api/client";
import { Status } from "../../ui/status";
import { Table } from "../../ui/table";

export function Tasks({ tasks }: { tasks: Schemas["JobDetail"]["tasks"] }) {
  if (!tasks?.length) return null;
  return (
    <Table
      label="Tasks"
      heading="Tasks"
      records={tasks}
      keyOf={(task) => `${task.log}/${task.attempt}`}
      columns={[
        { name: "Task", of: (task) => task.task },
        { name: "Generation", number: true, title: "Counts the times that the job was started or resized", of: (task) => task.generation },
        { name: "Node", of: (task) => task.node },
        { name: "Devices", of: (task) => task.devices.join(", ") },
        { name: "Status", of: (task) => <Status status={task.status} /> },
        { name: "Exit", of: (task) => task.error || (task.signal != null ? `signal ${task.signal}` : (task.code ?? "")) },
      ]}
    />
  );
}
