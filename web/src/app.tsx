// The frame around every view: navigation, who is logged in, whether the page is live.
import { useEffect } from "preact/hooks";

import { logOut, me, recognise, refusal } from "./api/client";
import { useEvents } from "./live";
import { Login } from "./login";
import { words } from "./router";
import { Keys, KeysButton } from "./ui/keys";
import { LiveMark } from "./ui/live_mark";
import { ThemeSwitch } from "./ui/theme";
import { Toasts } from "./ui/toast";
import { VIEWS } from "./views";

export function App() {
  useEffect(() => {
    const ask = () =>
      void recognise().catch((error: Error) => {
        refusal.value = error.message;
        me.value = null;
      });
    // The address of `muster open`, put into a tab that has the page already.
    const put = () => location.hash.startsWith("#login=") && ask();
    ask();
    addEventListener("hashchange", put);
    return () => removeEventListener("hashchange", put);
  }, []);
  useEvents();
  if (me.value === undefined) return <p class="starting" role="status">Connecting…</p>;
  return me.value === null ? <Login /> : <Frame />;
}

function Frame() {
  const [first = "", ...rest] = words.value;
  const view = VIEWS.find((each) => each.word === first);
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    document.title = `${view?.title ?? "Not found"}${rest.length ? ` ${rest.join(" ")}` : ""} · Muster`;
  }, [view, rest.join()]);
  return (
    <>
      <a class="skip" href="#main" data-plain>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="/" aria-label="Muster: queue">
          <img src="/assets/icon.svg" alt="" width="20" height="20" /> Muster
        </a>
        <nav aria-label="Views">
          {VIEWS.filter((each) => each.listed && (!each.admin || me.value!.admin)).map((each) => (
            <a href={`/${each.word}`} aria-current={each.word === (first === "jobs" ? "" : first) ? "page" : undefined}>
              {each.title}
            </a>
          ))}
        </nav>
        <LiveMark />
        <ThemeSwitch />
        <KeysButton />
        <span class="who" title={me.value!.admin ? "administrator" : "user"}>
          {me.value!.user}
        </span>
        {me.value!.login && (
          <button class="quiet" onClick={() => void logOut()}>
            Log out
          </button>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {view ? <view.Body rest={rest} key={rest.join("/")} /> : <NotFound />}
      </main>
      <Keys />
      <Toasts />
    </>
  );
}

function NotFound() {
  return (
    <section class="empty">
      <h1>There is no such page</h1>
      <p>
        <a href="/">The queue</a> lists your jobs.
      </p>
    </section>
  );
}
