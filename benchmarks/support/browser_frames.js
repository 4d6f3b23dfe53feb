// Counts the frames that a browser shows while something goes on, for so many ms.
// what: "scroll" up and down in the middle of the page, as fast as a hand does, or "point" at cell after
// cell of the canvas.
async ([what, duration]) => {
  const SPEED = 2; // px/ms
  const canvas = document.querySelector("canvas");
  const begun = performance.now();
  let frames = 0;
  let longest = 0;
  let last = begun;
  while (performance.now() - begun < duration) {
    const part = (performance.now() - begun) / duration;
    if (what === "scroll") {
      const room = document.documentElement.scrollHeight - innerHeight;
      const far = Math.min(room, (SPEED * duration) / 2);
      scrollTo(0, (room - far) / 2 + far * (part < 0.5 ? 2 * part : 2 - 2 * part));
    } else {
      const box = canvas.getBoundingClientRect();
      const at = { bubbles: true, clientX: box.left + box.width * ((7 * part) % 1), clientY: box.top + Math.min(box.height, innerHeight) * part };
      canvas.dispatchEvent(new MouseEvent("mousemove", at));
    }
    const now = await new Promise(requestAnimationFrame);
    frames += 1;
    longest = Math.max(longest, now - last);
    last = now;
  }
  return [frames, longest];
};
