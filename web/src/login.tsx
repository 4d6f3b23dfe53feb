// A token, exchanged once for a session.
import { useState } from "preact/hooks";

import { logIn, refusal } from "./api/client";
import { Command } from "./ui/command";

export function Login() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await logIn(token.trim());
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>
          <img src="/assets/icon.svg" alt="" width="28" height="28" /> Muster
        </h1>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          autofocus
          required
          value={token}
          aria-describedby="token-help"
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {(problem || refusal.value) && (
          <p class="problem" role="alert">
            {problem || refusal.value}
          </p>
        )}
        <button type="submit" disabled={busy || !token.trim()}>
          Log in
        </button>
        <div id="token-help" class="help">
          <p>Without a token, type this on the daemon's machine:</p>
          <Command text="muster open" />
          <p>It opens this page, logged in as you. Elsewhere, ask an administrator for a token. A token is kept nowhere in the browser; the session ends after 12 hours without use.</p>
        </div>
      </form>
    </main>
  );
}
