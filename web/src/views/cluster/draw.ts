// Draws the whole cluster on a canvas: some thousand rectangles, in a few milliseconds.
import { inks, jobColour } from "./colours";
import { cellAt, type Layout, type Tile } from "./layout";

const DIM = 0.22;

/** Draw all; `lit`: the job that is looked at, whose cells stand out. */
export function draw(canvas: HTMLCanvasElement, plan: Layout, width: number, lit: number | null, dark: boolean): void {
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(plan.height * ratio)];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, plan.height);
  const ink = inks(dark);
  pen.textBaseline = "top";
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillStyle = ink.text;
  for (const rack of plan.racks) pen.fillText(rack.name, 2, rack.y + 4);
  pen.font = "12px system-ui, sans-serif";
  for (const tile of plan.tiles) drawNode(pen, plan, tile, lit, dark);
  pen.globalAlpha = 1;
}

function drawNode(pen: CanvasRenderingContext2D, plan: Layout, tile: Tile, lit: number | null, dark: boolean): void {
  const { node } = tile;
  const ink = inks(dark);
  pen.globalAlpha = 1;
  if (plan.named) {
    pen.fillStyle = node.state === "up" ? ink.text : node.state === "lost" ? ink.lost : ink.draining;
    pen.fillText(shortened(node.name), tile.x + 3, tile.y + 2, plan.tileWidth - 6);
  }
  node.jobs.forEach((number, device) => {
    const [x, y] = cellAt(plan, tile, device);
    const promised = node.promised[device] ?? 0;
    pen.globalAlpha = lit !== null && lit !== number && lit !== promised ? DIM : 1;
    pen.fillStyle = number > 0 ? jobColour(number, dark) : number < 0 ? ink.hidden : ink.free;
    pen.fillRect(x, y, plan.cell, plan.cell);
    if (promised) mark(pen, x, y, plan.cell, promised > 0 ? jobColour(promised, dark) : ink.hidden);
    if (node.state === "lost") cross(pen, x, y, plan.cell, ink.lost);
  });
  if (node.state !== "up" || node.trouble) {
    pen.globalAlpha = 1;
    pen.strokeStyle = node.state === "lost" ? ink.lost : ink.draining;
    pen.strokeRect(tile.x + 0.5, tile.y + 0.5, plan.tileWidth - 1, plan.tileHeight - 1);
  }
}

/** A corner in the colour of the job that a device is withheld for. */
function mark(pen: CanvasRenderingContext2D, x: number, y: number, cell: number, colour: string): void {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y + cell);
  pen.lineTo(x + cell, y + cell);
  pen.lineTo(x + cell, y);
  pen.fill();
}

function cross(pen: CanvasRenderingContext2D, x: number, y: number, cell: number, colour: string): void {
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x + 2, y + 2);
  pen.lineTo(x + cell - 2, y + cell - 2);
  pen.moveTo(x + cell - 2, y + 2);
  pen.lineTo(x + 2, y + cell - 2);
  pen.stroke();
}

function shortened(name: string): string {
  return name.length > 14 ? `${name.slice(0, 6)}…${name.slice(-7)}` : name;
}
