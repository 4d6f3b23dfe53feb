import { api, got } from "../../api/client";
import { clock, moment } from "../../format";
import { query, setQuery } from "../../router";
import { Empty } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Table } from "../../ui/table";

/** Who did what, newest first. */
export function Audit() {
  const user = query.value.get("user") ?? "";
  const acts = useLoaded(
    async () => (await got(api.GET("/v1/audit", { params: { query: { limit: 300, ...(user ? { user } : {}) } } }))).reverse(),
    [user],
    5000,
  );
  return (
    <>
      <p>
        <input type="search" placeholder="Only this user" aria-label="Only this user" value={user} onInput={(event) => setQuery({ user: event.currentTarget.value })} />
      </p>
      {acts && !acts.length && (
        <Empty title={user ? `Nothing by ${user}` : "Nothing yet"}>
          <p>Every change that somebody asks for is listed here: jobs stopped or resized, nodes drained, tokens, files looked at.</p>
        </Empty>
      )}
      {acts && acts.length > 0 && (
        <Table
          label="Audit log"
          records={acts}
          keyOf={(act) => `${act.at}${act.user}${act.act}${act.target}`}
          columns={[
            { name: "When", of: (act) => <time title={moment(act.at)}>{clock(act.at)}</time> },
            { name: "Who", of: (act) => act.user },
            { name: "Did", of: (act) => act.act },
            { name: "To", of: (act) => act.target },
            { name: "Outcome", of: (act) => act.outcome },
            { name: "Detail", of: (act) => act.detail },
            { name: "From", of: (act) => act.address },
          ]}
        />
      )}
    </>
  );
}
