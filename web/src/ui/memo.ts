// Renders a component again only if one of its inputs is another one.
import { Component, createElement, type ComponentType } from "preact";

export function memo<P extends object>(Body: ComponentType<P>): ComponentType<P> {
  return class Memo extends Component<P> {
    shouldComponentUpdate(next: Readonly<P>): boolean {
      const keys = Object.keys({ ...this.props, ...next }) as (keyof P)[];
      return keys.some((key) => this.props[key] !== next[key]);
    }
    render() {
      return createElement(Body, this.props);
    }
  };
}
