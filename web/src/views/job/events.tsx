import type { JobDetail } from "../../api/client";
import { clock, moment } from "../../format";

/** What happened to the job, newest first. */
export function Events({ detail }: { detail: JobDetail }) {
  const changes = [...(detail.changes ?? [])].reverse();
  return (
    <section class="card events" aria-label="Events">
      <h2>Events</h2>
      <ol tabIndex={0} aria-label="Events, newest first">
        {changes.map((each) => (
          <li key={each.seq}>
            <time title={moment(each.at)}>{clock(each.at)}</time> {each.text}
          </li>
        ))}
      </ol>
    </section>
  );
}
