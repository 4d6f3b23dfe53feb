"""`muster why`: a job's story on a page."""

import time
from collections.abc import Iterator

from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import clock, counted, moment, when
from muster.wire.api.records import OVER
from muster.wire.api.story_records import AdviceRecord, JobStory, StoryLine

_SAY_IT_ALL = ("submitted", "asked", "lost")
"""Lines that need no verb."""


def story_page(story: JobStory, now: float) -> str:
    """Render what happened, what keeps the job now, and what would help."""
    lines = [f"{bold(story.name)} ({story.number}), {painted(story.status)}", ""]
    lines += [_line(line, now) for line in story.lines]
    if not story.complete:
        lines.append("  (the journal no longer has the rest: told by what it held)")
    facts = list(_facts(story, now))
    if facts:
        lines += ["", *(f"  {name:<10} {text}" for name, text in facts)]
    return "\n".join(lines)


def _line(line: StoryLine, now: float) -> str:
    """`05:12:01  waited 12m03s: too few free devices of its types`."""
    at = _at(line.at, now)
    if line.what in _SAY_IT_ALL:
        return f"  {at}  {line.text}"
    took = f" {clock(line.seconds)}" if line.seconds is not None else ""
    if line.what == "ended":
        ran = f", ran for{took} in all" if took else ""
        return f"  {at}  {line.text}{ran}"
    what = "has waited" if line.what == "waits" else line.what
    return f"  {at}  {what}{took}{f': {line.text}' if line.text else ''}"


def _at(at: float, now: float) -> str:
    """The time of day, with the date unless it is today's."""
    today = time.localtime(at)[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S", time.localtime(at)) if today else moment(at)


def _facts(story: JobStory, now: float) -> Iterator[tuple[str, str]]:
    if story.status in OVER:
        return
    if story.now:
        yield "now", f"{story.code}: {story.now}" if story.code else story.now
    if story.rank and story.rank not in story.now:
        yield "competes", story.rank
    expected = list(_expected(story, now))
    unknown = "start and finish unknown" if story.code.startswith("waiting") else "finish unknown"
    yield "expected", ", ".join(expected) or unknown
    name = "would help"
    for each in story.advice:
        yield name, advice_words(each)
        name = ""
    if story.advised and not story.advice and story.status == "waiting":
        yield "would help", "no single change of its request"


def _expected(story: JobStory, now: float) -> Iterator[str]:
    if story.start is not None:
        yield f"to start {when(story.start, now)}"
    if story.finish is not None:
        between = ""
        if story.finish_low is not None and story.finish_high is not None:
            low, high = (clock(max(0.0, each - now)) for each in (story.finish_low, story.finish_high))
            between = f" ({low} to {high})"
        yield f"to finish {when(story.finish, now)}{between}"


def advice_words(advice: AdviceRecord) -> str:
    """`workers: 2 (muster resize 12 2): 2 workers at once`."""
    how = f" ({advice.command})" if advice.command else ", submitted again"
    moment_of = "at once" if advice.at_once else "once others have made way"
    gets = counted(advice.workers, "worker")
    return f"{advice.field}: {advice.value}{how}: {gets} {moment_of}"
