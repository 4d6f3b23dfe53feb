import type { Schemas } from "../../api/client";
import { Status } from "../../ui/status";

export function Tasks({ tasks }: { tasks: Schemas["JobDetail"]["tasks"] }) {
  if (!tasks?.length) return null;
  return (
    <section class="card scroll">
      <h2>Tasks</h2>
      <table>
        <thead>
          <tr>
            <th>Task</th>
            <th>Generation</th>
            <th>Node</th>
            <th>Devices</th>
            <th>Status</th>
            <th>Exit</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr key={`${task.log}/${task.attempt}`}>
              <td>{task.task}</td>
              <td>{task.generation}</td>
              <td>{task.node}</td>
              <td>{task.devices.join(", ")}</td>
              <td>
                <Status status={task.status} />
              </td>
              <td>{task.error || (task.signal != null ? `signal ${task.signal}` : (task.code ?? ""))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
