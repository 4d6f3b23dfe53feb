import type { JobDetail } from "../../api/client";
import { shellLine } from "../../format";
import { Fact } from "./facts";

/** What it runs, where, and with which variables. */
export function Configuration({ detail }: { detail: JobDetail }) {
  const { job, program } = detail;
  const env = Object.entries(program?.env ?? {});
  return (
    <section class="card">
      <h2>Configuration</h2>
      <pre class="scroll" tabIndex={0} aria-label="Command">{shellLine(job.command ?? [])}</pre>
      <dl>
        {program?.folder && <Fact name="Folder">{program.folder}</Fact>}
        {program?.executable && <Fact name="Program">{program.executable}</Fact>}
        {program?.checkpoint && <Fact name="Checkpoints">{program.checkpoint}</Fact>}
        {job.until && <Fact name="Until">{job.until}</Fact>}
        {env.map(([name, value]) => (
          <Fact key={name} name={name}>
            <code>{value}</code>
          </Fact>
        ))}
      </dl>
    </section>
  );
}
