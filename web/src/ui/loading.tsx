import { live } from "../live";

/** What a view says until it has its data: that it comes, or that nobody answers. */
export function Loading() {
  return <p role="status">{live.value === "lost" ? "The daemon does not answer. The page goes on by itself once it does." : "Loading…"}</p>;
}
