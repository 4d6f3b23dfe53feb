import type { JobDetail } from "../../api/client";
import { clock, duration, percent } from "../../format";

/** What was predicted, and what came of it. */
export function Predictions({ detail }: { detail: JobDetail }) {
  const found = [...(detail.predictions ?? [])].reverse().slice(0, 12);
  if (!found.length) return null;
  const text = (what: string, value: number) => (what === "step" ? duration(value) : clock(value));
  return (
    <section class="card scroll">
      <h2>Predictions</h2>
      <table>
        <thead>
          <tr>
            <th>Made</th>
            <th>Of</th>
            <th>Predicted</th>
            <th>Real</th>
            <th class="number">Error</th>
          </tr>
        </thead>
        <tbody>
          {found.map((each) => (
            <tr key={`${each.at}-${each.what}-${each.real}`}>
              <td>{clock(each.at)}</td>
              <td>{each.what}</td>
              <td>{text(each.what, each.predicted)}</td>
              <td>{each.real == null ? "" : text(each.what, each.real)}</td>
              <td class="number">{each.error == null ? "" : percent(each.error)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
