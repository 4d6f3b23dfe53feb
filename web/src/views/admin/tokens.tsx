import { useState } from "preact/hooks";

import { api, got, me, type Schemas } from "../../api/client";
import { fromNow } from "../../format";
import { refresh } from "../../live";
import { Command } from "../../ui/command";
import { Dialog } from "../../ui/dialog";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { Table } from "../../ui/table";
import { attempt } from "../../ui/toast";

type Token = Schemas["TokenRecord"];

/** Tokens of users; the secret of a new one is shown once. */
export function Tokens() {
  const tokens = useLoaded(() => got(api.GET("/v1/tokens")), [], 10_000);
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState("");
  const [made, setMade] = useState<Token | null>(null);
  if (!tokens) return <Loading />;
  const revoke = async (name: string) => {
    const asked = () => got(api.DELETE("/v1/tokens/{name}", { params: { path: { name } } }));
    if (await attempt(asked, `${name} is revoked`)) refresh();
  };
  return (
    <>
      {me.value?.admin && (
        <p>
          <button onClick={() => setMaking(true)}>New token…</button>
        </p>
      )}
      {made?.secret && (
        <section class="card" aria-label="New token">
          <p>
            The secret of <b>{made.name}</b>, for {made.user}. It is not shown again.
          </p>
          <Command text={made.secret} />
          <button class="quiet" onClick={() => setMade(null)}>
            Done
          </button>
        </section>
      )}
      <Table
        label="Tokens"
        records={tokens}
        keyOf={(token) => token.name}
        columns={[
          { name: "Token", of: (token) => token.name },
          { name: "User", of: (token) => token.user },
          { name: "Role", of: (token) => token.role },
          { name: "Created", of: (token) => fromNow(token.created) },
          { name: "Last used", of: (token) => (token.used == null ? "never" : fromNow(token.used)) },
          {
            name: "",
            of: (token) => (
              <button class="quiet" onClick={() => setRevoking(token.name)}>
                Revoke…
              </button>
            ),
          },
        ]}
      />
      {revoking && (
        <Dialog title={`Revoke ${revoking}?`} confirm="Revoke" danger onClose={() => setRevoking("")} onConfirm={() => void revoke(revoking)}>
          <p>Who uses it is refused from now on, and sessions that it opened end.</p>
        </Dialog>
      )}
      {making && <NewToken onClose={() => setMaking(false)} onMade={setMade} />}
    </>
  );
}

function NewToken({ onClose, onMade }: { onClose: () => void; onMade: (token: Token) => void }) {
  const [name, setName] = useState("");
  const [user, setUser] = useState("");
  const [admin, setAdmin] = useState(false);
  const make = async () => {
    const body = { name, user: user || null, role: admin ? ("admin" as const) : ("user" as const) };
    await attempt(async () => onMade(await got(api.POST("/v1/tokens", { body }))), "");
    refresh();
  };
  return (
    <Dialog title="New token" confirm="Create" onClose={onClose} onConfirm={() => void make()}>
      <label>
        Name of the token
        <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>
        Its user (if another name)
        <input value={user} onInput={(event) => setUser(event.currentTarget.value)} />
      </label>
      <label class="check">
        <input type="checkbox" checked={admin} onChange={(event) => setAdmin(event.currentTarget.checked)} /> administrator
      </label>
    </Dialog>
  );
}
