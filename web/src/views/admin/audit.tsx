import { api, got } from "../../api/client";
import { clock } from "../../format";
import { query, setQuery } from "../../router";
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
      {acts && (
        <Table
          label="Audit log"
          records={acts}
          keyOf={(act) => `${act.at}${act.user}${act.act}${act.target}`}
          columns={[
            { name: "When", of: (act) => clock(act.at) },
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
