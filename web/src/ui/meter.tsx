/** A part of a whole as a bar, with its number beside it. */
export function Meter({ part, label, text }: { part: number; label: string; text?: string }) {
  const value = Math.max(0, Math.min(1, part));
  return (
    <span class="meter">
      <progress value={value} max={1} aria-label={label} />
      <span>{text ?? `${Math.floor(100 * value)} %`}</span>
    </span>
  );
}
