// Short messages after an action: what was done, or why not.
import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}
const SHOWN = 6000; // ms
const toasts = signal<Toast[]>([]);
let next = 0;

export function say(text: string, bad = false): void {
  const id = next++;
  toasts.value = [...toasts.value, { id, text, bad }];
  setTimeout(() => (toasts.value = toasts.value.filter((each) => each.id !== id)), SHOWN);
}

/** Do something, and say what came of it. */
export async function attempt(act: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await act();
    if (done) say(done);
    return true;
  } catch (error) {
    say((error as Error).message, true);
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <p key={each.id} class={each.bad ? "bad" : ""}>
          {each.text}
        </p>
      ))}
    </div>
  );
}
