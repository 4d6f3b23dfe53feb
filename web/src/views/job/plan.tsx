import type { JobDetail } from "../../api/client";
import { duration, figure } from "../../format";
import { Fact } from "./facts";

/** How its tasks share the work, and what was second best. */
export function Plan({ detail }: { detail: JobDetail }) {
  const { plan } = detail;
  if (!plan) return null;
  return (
    <section class="card">
      <h2>Plan</h2>
      <p>{plan.text}</p>
      <dl>
        <Fact name="Step, predicted">{seconds(plan.predicted)}</Fact>
        {plan.measured != null && <Fact name="Step, measured">{seconds(plan.measured)}</Fact>}
        {plan.runner_up && (
          <Fact name="Runner-up">
            {plan.runner_up}, {seconds(plan.runner_up_predicted ?? 0)} a step
          </Fact>
        )}
        {detail.policy && <Fact name="Policy">{detail.policy}</Fact>}
      </dl>
    </section>
  );
}

function seconds(value: number): string {
  return value >= 10 ? duration(value) : value >= 1 ? `${figure(value)} s` : `${figure(1000 * value)} ms`;
}
