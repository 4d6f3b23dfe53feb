// A command to type, with a button that copies it.
import { useState } from "preact/hooks";

export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      {isSecureContext && (
        <button type="button" class="quiet" onClick={() => void copy()} aria-label={`Copy: ${text}`}>
          {copied ? "Copied" : "Copy"}
        </button>
      )}
    </div>
  );
}
