// A question before something is done.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  confirm: string;
  danger?: boolean;
  children?: ComponentChildren;
  onConfirm: () => void;
  onClose: () => void;
}

export function Dialog({ title, confirm, danger, children, onConfirm, onClose }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    onConfirm();
    onClose();
  };
  return (
    <dialog ref={box} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div class="buttons">
          <button type="button" class="quiet" onClick={() => box.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={danger ? "danger" : ""}>
            {confirm}
          </button>
        </div>
      </form>
    </dialog>
  );
}
