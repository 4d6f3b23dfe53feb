// Keys: `/` searches, `?` lists them, `g` and a letter go to a view.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { go } from "../router";

const open = signal(false);
const PLACES: Record<string, string> = {
  q: "/",
  c: "/cluster",
  p: "/pools",
  t: "/timeline",
  s: "/sweeps",
  w: "/what-if",
  f: "/accuracy",
  a: "/admin",
};
const HELP: [string, string][] = [
  ["/", "search"],
  ["j k", "next or previous job of the list"],
  ["Enter", "open it"],
  ["x", "select it"],
  ["g q, g c, g p", "go to the queue, the cluster, the pools"],
  ["g t, g s", "go to the timeline, the sweeps"],
  ["g w, g f, g a", "go to what if, accuracy of forecasts, administration"],
  ["Esc", "close what is open, leave a field"],
  ["?", "this help"],
];

/** Whether somebody is writing, or a key is part of a shortcut of the browser's. */
export function isTyping(event: KeyboardEvent): boolean {
  const at = event.target as HTMLElement;
  const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && !at.matches("[type=checkbox]");
  return event.metaKey || event.ctrlKey || event.altKey || writes;
}

/** Leave a field with what is written in it: a browser would empty a search. */
function leave(event: KeyboardEvent): void {
  const field = event.target as HTMLElement;
  if (!field.closest("dialog")) event.preventDefault();
  field.blur();
}

/** Opens the list of keys, for those who do not know of any. */
export function KeysButton() {
  return (
    <button class="quiet theme" onClick={() => (open.value = true)} aria-label="Keys" title="Keys (?)">
      <span aria-hidden="true">?</span>
    </button>
  );
}

export function Keys() {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    let going = false;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape" && isTyping(event)) return leave(event);
      if (isTyping(event)) return;
      const place = going ? PLACES[event.key] : undefined;
      going = event.key === "g";
      if (place) return go(place);
      if (event.key === "?") open.value = true;
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("input[type=search]");
        if (search) {
          event.preventDefault();
          search.focus();
          search.select();
        }
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  useEffect(() => {
    if (open.value) box.current?.showModal();
  }, [open.value]);
  if (!open.value) return null;
  return (
    <dialog ref={box} onClose={() => (open.value = false)} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {HELP.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}
