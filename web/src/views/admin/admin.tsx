// Nodes, tokens, users' limits and the audit log.
import { query, setQuery } from "../../router";
import { Audit } from "./audit";
import { Limits } from "./limits";
import { Nodes } from "./nodes";
import { Tokens } from "./tokens";

const PARTS = { nodes: Nodes, tokens: Tokens, users: Limits, audit: Audit };
type Part = keyof typeof PARTS;

export function Admin() {
  const wanted = query.value.get("part") ?? "nodes";
  const part = (wanted in PARTS ? wanted : "nodes") as Part;
  const Body = PARTS[part];
  return (
    <>
      <div class="view-head">
        <h1>Administration</h1>
        <div class="chips" role="group" aria-label="Parts">
          {Object.keys(PARTS).map((name) => (
            <button key={name} class="chip" aria-pressed={name === part} onClick={() => setQuery({ part: name })}>
              {name}
            </button>
          ))}
        </div>
      </div>
      <Body />
    </>
  );
}
