import { count } from "../../format";
import { isDark } from "../../ui/theme";
import { jobColour } from "./colours";
import type { ClusterMap } from "./layout";

const SHOWN = 100;

/** The jobs that hold devices, the largest first. Point at one to see its cells. */
export function JobsOnIt({ map, lit, onLight }: { map: ClusterMap; lit: number | null; onLight: (job: number | null) => void }) {
  const jobs = [...map.jobs].sort((a, b) => b.devices - a.devices || a.number - b.number);
  const dark = isDark();
  return (
    <section class="card" aria-label="Jobs on the cluster">
      <h2>{count(jobs.length, "job")}</h2>
      {!jobs.length && <p>Every device is free.</p>}
      <ul class="plain job-list">
        {jobs.slice(0, SHOWN).map((job) => (
          <li key={job.number} class={lit === job.number ? "lit" : ""} onMouseEnter={() => onLight(job.number)} onMouseLeave={() => onLight(null)}>
            <span class="key" style={{ background: jobColour(job.number, dark) }} />
            <a href={`/jobs/${job.number}`} onFocus={() => onLight(job.number)} onBlur={() => onLight(null)}>
              {job.name}
            </a>{" "}
            <small>{job.user}</small>
            <span class="grow" />
            <span class="number">{job.devices}</span>
          </li>
        ))}
      </ul>
      {jobs.length > SHOWN && <p>and {jobs.length - SHOWN} smaller ones</p>}
    </section>
  );
}
