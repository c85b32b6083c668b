"""What the numbers of a study say, in words that are chosen by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from dissonance.studies.gflownet.published import CLIPS, PUBLISHED
from dissonance.studies.gflownet.results import ALL, FROZEN, GAP, Comparison, Results
from dissonance.studies.gflownet.statistics import Interval

UNDER = {
    "none": "Without a clamp",
    "trajectory": "Each trajectory clamped, as in the paper's text",
    "batch": "The batch clamped, as in the published runs",
}
WHEN = {
    "l1": "at the end",
    "mean_l1": "on average over the training",
    "top_l1": "at the end, geometric mean over all hyperparameters that were confirmed",
}
NEAR = 0.01
"""A published L1 that is no farther from that of a perfect sampler says nothing about the policy."""


def findings(results: Results) -> Iterator[str]:
    """The findings: paragraphs and lists in Markdown."""
    found = list(results.comparisons())
    for clamp in results.settings.clamps:
        here = [c for c in found if c.clamp == clamp]
        if here:
            yield f"**{UNDER[clamp]}**"
            yield _list(_compared(here, f, measure) for f in results.families for measure in results.measures)
    if results.families:
        yield "**The search**, whose luck the ratios above contain; intervals here are by resampling the trials"
        yield _list(_searched(results))
    yield f"**Noise.** {_noise(results)}"
    if results.families and {"none", "batch"} <= set(results.settings.clamps):
        yield f"**The clamp.** {_frozen(results)}"
        yield _list(_explained(results))
    if {"LPV", "ModLPV"} <= set(results.settings.losses):
        yield f"**Clips.** {' '.join(_clips(results))}"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def bounds(ratio: Interval) -> str:
    """A ratio with its interval, if it has one."""
    interval = "" if math.isnan(ratio.low) else f" [{_digits(ratio.low)}, {_digits(ratio.high)}]"
    return f"{_digits(ratio.mean)}{interval}"


def differs(gap: Interval, digits: int = 3) -> str:
    """A difference with its interval, if it has one."""
    interval = "" if math.isnan(gap.low) else f" [{gap.low:.{digits}f}, {gap.high:.{digits}f}]"
    return f"{gap.mean:.{digits}f}{interval}"


def _digits(x: float) -> str:
    return f"{x:.2f}" if x >= 0.1 else f"{x:.2g}"


def _compared(here: Sequence[Comparison], family: tuple[str, str], measure: str) -> str:
    """On which rewards the L1 of a modified loss is smaller than that of its original, and on which not."""
    mine = [c for c in here if (c.modified, c.original) == family and c.measure == measure]
    when = WHEN[measure]
    whole = "".join(f"; over all rewards {bounds(c.ratio)}" for c in mine if c.reward == ALL)
    counted = _counted({c.reward: c.ratio for c in mine if c.reward != ALL})
    return f"Exact L1 of {family[0]} beside {family[1]} {when}: {counted}{whole}."


def _counted(each: Mapping[str, Interval]) -> str:
    """On how many rewards a ratio is smaller than 1, larger, or neither, and which."""
    parts: list[str] = []
    for kind in ("smaller", "larger", "unclear"):
        some = {reward: ratio for reward, ratio in each.items() if ratio.verdict == kind}
        if some or kind == "smaller":
            named = ", ".join(f"{reward} {bounds(ratio)}" for reward, ratio in some.items())
            count = f"{len(some)} of {len(each)} rewards" if kind == "smaller" else str(len(some))
            parts.append(f"{kind} on {count}{named and f': {named}'}")
    return "; ".join(parts)


def _searched(results: Results) -> Iterator[str]:
    """How far the searches came, and how much it mattered what they tried."""
    found = list(results.searched())
    for clamp in results.settings.searched:
        for modified, original in results.families:
            here = [s for s in found if (s.clamp, s.modified) == (clamp, modified)]
            under = f" under the clamp {clamp}" if len(results.settings.searched) > 1 else ""
            start = f"Exact L1 of {modified} beside {original}{under}"
            yield f"{start} in the best trial: {_counted({s.reward: s.best for s in here})}."
            yield f"{start} in the median trial: {_counted({s.reward: s.typical for s in here})}."


def _noise(results: Results) -> str:
    """How much of the published metrics is that of their samples."""
    s = results.settings
    floors = ", ".join(f"{l1:.4f} ({reward})" for reward, (l1, _) in results.floors.items())
    text = f"A perfect sampler scores an L1 of {floors} with {s.samples} samples."
    if not results.noisy:
        return text + " The paper's grid or its number of samples is another, so that its metrics cannot be compared."
    near = {
        reward: sum(abs(PUBLISHED["sampled_l1"][reward, loss].median - l1) <= NEAR for loss in s.losses)
        for reward, (l1, _) in results.floors.items()
    }
    at_floor = [f"{count} of {len(s.losses)} on {reward}" for reward, count in near.items()]
    return text + f" So many of the published medians are no farther than {NEAR} from that: {', '.join(at_floor)}."


def _frozen(results: Results) -> str:
    s = results.settings
    counts: list[str] = []
    for loss in s.losses:
        runs = [o for reward in s.rewards for o in results.runs("batch", reward, loss)]
        counts.append(f"{sum(o.frozen > FROZEN for o in runs)} of {len(runs)} ({loss})")
    return f"The clamp of the batch froze {', '.join(counts)} runs for more than half of their iterations."


def _explained(results: Results) -> Iterator[str]:
    """A sentence about each gap, and one about those that are none."""
    none: list[str] = []
    for e in results.explained():
        ours, without = e.gaps["batch"], e.gaps["none"]
        if max(e.published, ours.mean) <= GAP:
            none.append(f"{e.original} - {e.modified} on {e.reward}")
            continue
        gap = (
            f"On {e.reward} the L1 of {e.original} exceeds that of {e.modified} by {e.published:.3f} as published, "
            f"by {differs(ours)} here with the clamp of the batch, and by {differs(without)} without: "
        )
        if math.isnan(e.share):
            yield gap + "the gap is not there with that clamp either."
            continue
        part = "none of it" if e.share <= 0 else f"{100 * min(e.share, 1):.0f} %"
        yield gap + f"the clamp explains {part}, by medians; it changes the gap by {differs(e.change)}."
    if none:
        yield f"No gap above {GAP}, as published or here with the clamp: {', '.join(none)}."


def _clips(results: Results) -> Iterator[str]:
    """Whether ModLPV wants larger clips than LPV, in each search."""
    s = results.settings
    for clamp in s.searched:
        ratios: dict[str, float] = {}
        for reward in s.rewards:
            first, second = (results.best(clamp, reward, loss) for loss in ("LPV", "ModLPV"))
            if first and second:
                ratios[reward] = median(t.clip for t in second) / median(t.clip for t in first)
        larger = sum(r > 1 for r in ratios.values())
        theirs = sum(CLIPS[r][1] > CLIPS[r][0] for r in ratios)
        named = ", ".join(f"{reward} {ratio:.2g}" for reward, ratio in ratios.items())
        under = f" under the clamp {clamp}" if len(s.searched) > 1 else ""
        yield (
            f"In the best fifth of its trials{under} ModLPV has a larger median clip than LPV on {larger} of "
            f"{len(ratios)} rewards (ratios: {named}); as published it is on {theirs}."
        )
