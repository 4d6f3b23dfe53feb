// A chart of ECharts: loaded when first needed, drawn by the theme, changed without flicker.
import type { EChartsCoreOption, ECharts } from "echarts/core";
import { useEffect, useRef } from "preact/hooks";

import { isDark } from "../ui/theme";

export const PALETTE = ["#2f8f9d", "#c77d2e", "#6a7fdb", "#4d9e5b", "#c2557a", "#8a6bbf", "#a08a2c", "#5b6f7a"];

interface Props {
  option: EChartsCoreOption;
  /** What it shows, for those who do not see it. */
  label: string;
  height?: number;
  onClick?: (found: { data?: unknown; seriesName?: string; name?: string }) => void;
}

export function Chart({ option, label, height = 240, onClick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<ECharts | null>(null);
  const latest = useRef<Props>({ option, label });
  latest.current = { option, label, onClick };
  const dark = isDark();
  const draw = () => chart.current?.setOption(looking(latest.current.option, dark), { replaceMerge: ["series"] });
  useEffect(() => {
    let ended = false;
    const resized = new ResizeObserver(() => chart.current?.resize());
    void import("./engine").then(({ echarts }) => {
      if (ended || !box.current) return;
      chart.current = echarts.init(box.current, undefined, { renderer: "canvas" });
      chart.current.on("click", (found) => latest.current.onClick?.(found as never));
      resized.observe(box.current);
      draw();
    });
    return () => {
      ended = true;
      resized.disconnect();
      chart.current?.dispose();
      chart.current = null;
    };
  }, []);
  useEffect(() => void draw(), [option, dark]);
  return <div ref={box} class="chart" role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

type Axis = Record<string, unknown>;

/** A chart's own option with the colours and margins of all. Tooltips are drawn, not made of HTML: a name
 * stays text, and the page needs no inline styles. */
function looking(option: EChartsCoreOption, dark: boolean): EChartsCoreOption {
  const ink = dark ? "#9dabb2" : "#566269";
  const line = { lineStyle: { color: dark ? "#303a40" : "#dde2e4" } };
  const common = { axisLabel: { color: ink, hideOverlap: true }, nameTextStyle: { color: ink }, axisLine: line, splitLine: line };
  const axes = (own: unknown) => [own ?? []].flat().map((each) => ({ ...common, ...(each as Axis), axisLabel: { ...common.axisLabel, ...((each as Axis).axisLabel as Axis) } }));
  return {
    animation: false,
    color: PALETTE,
    textStyle: { color: ink, fontFamily: "system-ui, sans-serif" },
    grid: { left: 8, right: 24, top: 24, bottom: 8, containLabel: true },
    ...option,
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      backgroundColor: dark ? "#242d32" : "#ffffff",
      textStyle: { color: dark ? "#e4eaec" : "#1b2428" },
      ...(option.tooltip as Axis | undefined),
    },
    ...(option.legend ? { legend: { textStyle: { color: ink }, type: "scroll", ...(option.legend as Axis) } } : {}),
    ...(option.parallelAxis ? { parallelAxis: axes(option.parallelAxis) } : {}),
    xAxis: axes(option.xAxis),
    yAxis: axes(option.yAxis),
  };
}
