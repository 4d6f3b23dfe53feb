// Requests to the daemon, typed by its own OpenAPI document.
import { signal } from "@preact/signals";
import createClient from "openapi-fetch";

import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Job = Schemas["JobRecord"];
export type JobDetail = Schemas["JobDetail"];
export type Me = Schemas["SessionRecord"];
export type Problem = Schemas["Problem"];

const KEPT = "muster.session";
/** The page's half of the session: storage is this address's own, with its port. */
export const key = signal(localStorage.getItem(KEPT) ?? "");
/** Who is logged in; null: nobody; undefined: not asked yet. */
export const me = signal<Me | null | undefined>(undefined);

/** Why somebody who was let in before, or had a code, is asked for a token. */
export const refusal = signal("");
const ENDED = "Your session has ended: its time was over, or the daemon has restarted. Log in again.";

/** What every request sends. */
export function headers(): Record<string, string> {
  return key.value ? { "Muster-Session": key.value } : {};
}

export const api = createClient<paths>({ baseUrl: location.origin, querySerializer: { array: { style: "form", explode: true } } });
api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(headers())) request.headers.set(name, value);
    return request;
  },
  onResponse({ response, schemaPath }) {
    // A code that is used up says nothing of the session that there is.
    if (response.status !== 401 || schemaPath === "/v1/session/redeem") return;
    if (key.value) refusal.value = ENDED;
    forget();
  },
});

/** A request that the daemon has refused: its words, ready to show. */
export class Refused extends Error {
  constructor(readonly problem: Problem | undefined) {
    const faults = problem?.errors?.map((each) => (each.field ? `${each.field}: ${each.problem}` : each.problem));
    super(faults?.length ? faults.join("; ") : (problem?.detail ?? "the daemon cannot be reached"));
  }
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer; an answer that is a problem is thrown. */
export async function got<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked.catch(() => {
    throw new Refused(undefined);
  });
  if (!response.ok) throw new Refused(error as Problem);
  return data as T;
}

/** Open a session with the code of `muster open`, which leaves the address at once. */
async function redeem(code: string): Promise<void> {
  history.replaceState(null, "", location.pathname + location.search);
  const found = await got(api.POST("/v1/session/redeem", { body: { code } }));
  keep(found);
}

/** Find out who is logged in; a code that is no longer good matters only if nobody is. */
export async function recognise(): Promise<void> {
  const code = /^#login=(.+)$/.exec(location.hash)?.[1];
  const refused = code ? await redeem(code).then(() => null, (error: Error) => error) : undefined;
  if (refused === null) return;
  const { data, response } = await api.GET("/v1/session");
  me.value = response.ok && data ? data : null;
  if (refused && !me.value) throw refused;
}

/** Exchange a token for a session: a cookie that scripts cannot read, and the key. */
export async function logIn(token: string): Promise<void> {
  const found = await got(api.POST("/v1/session", { headers: { Authorization: `Bearer ${token}` } }));
  keep(found);
}

function keep(found: Me): void {
  key.value = found.key ?? "";
  localStorage.setItem(KEPT, key.value);
  refusal.value = "";
  me.value = found;
}

export async function logOut(): Promise<void> {
  await api.DELETE("/v1/session").catch(() => undefined);
  forget();
}

function forget(): void {
  localStorage.removeItem(KEPT);
  key.value = "";
  me.value = null;
}

// Another tab has logged in or out.
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  key.value = event.newValue ?? "";
  void recognise();
});
