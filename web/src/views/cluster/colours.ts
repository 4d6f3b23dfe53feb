// One colour per job: the golden angle keeps neighbours in the queue apart.

export function jobColour(number: number, dark: boolean): string {
  const hue = (number * 137.508) % 360;
  return dark ? `hsl(${hue} 48% 60%)` : `hsl(${hue} 52% 50%)`;
}

export interface Inks {
  free: string;
  hidden: string;
  edge: string;
  text: string;
  draining: string;
  lost: string;
}

export function inks(dark: boolean): Inks {
  return dark
    ? { free: "#2b363c", hidden: "#6b7880", edge: "#303a40", text: "#9dabb2", draining: "#e3b857", lost: "#f2908c" }
    : { free: "#e6eaec", hidden: "#8d999f", edge: "#dde2e4", text: "#566269", draining: "#b07c10", lost: "#a3262a" };
}
