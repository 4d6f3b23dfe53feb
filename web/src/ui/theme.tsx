// Dark or light: as the system says, until the user chooses.
import { signal } from "@preact/signals";

const KEPT = "muster.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = signal(localStorage.getItem(KEPT));
const systemDark = signal(system.matches);
system.addEventListener("change", () => (systemDark.value = system.matches));

/** Whether the page is dark now; canvases draw by it. */
export function isDark(): boolean {
  return chosen.value ? chosen.value === "dark" : systemDark.value;
}

if (chosen.value) document.documentElement.dataset.theme = chosen.value;

export function ThemeSwitch() {
  const next = isDark() ? "light" : "dark";
  const change = () => {
    chosen.value = next;
    localStorage.setItem(KEPT, next);
    document.documentElement.dataset.theme = next;
  };
  return (
    <button class="quiet theme" onClick={change} aria-label={`Use the ${next} theme`} title={`Use the ${next} theme`}>
      <span aria-hidden="true">{isDark() ? "☀" : "☾"}</span>
    </button>
  );
}
