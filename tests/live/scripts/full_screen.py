"""A full-screen program: shows the size of its window and the last key, until q."""

import curses


def main(screen: "curses.window") -> int:
    curses.curs_set(0)
    key = "none"
    while True:
        rows, columns = screen.getmaxyx()
        screen.erase()
        screen.addstr(0, 0, f"window {rows}x{columns}")
        screen.addstr(rows - 1, 0, f"key {key}")
        screen.refresh()
        try:
            key = screen.getkey()
        except KeyboardInterrupt:
            key = "interrupt"
        except curses.error:  # a signal came while it waited
            continue
        if key == "KEY_RESIZE":
            curses.update_lines_cols()
        if key == "q":
            return 3


raise SystemExit(curses.wrapper(main))
