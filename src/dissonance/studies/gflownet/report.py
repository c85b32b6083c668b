"""The study's report: exact metrics, the paper's beside them, and what the comparison comes to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from dissonance.studies.gflownet.published import CLIPS, PUBLISHED
from dissonance.studies.gflownet.results import ALL, Results
from dissonance.studies.gflownet.statistics import MedianSpread
from dissonance.studies.gflownet.verdict import UNDER, bounds, differs, findings
from dissonance.studies.written import markdown_table

Rows = Iterator[Sequence[str]]
TITLES = {
    "sampled_l1": "Final L1 of samples",
    "sampled_jsd": "Final JSD of samples",
    "coverage": "Modes that training ended in",
    "to_twice_final": "Iterations to twice the final loss, as a share",
}


def gflownet_report(results: Results, drawn: Sequence[str]) -> str:
    """The report in Markdown; `drawn` are the figures that are there."""
    s = results.settings
    blocks = [
        "# The GFlowNet study",
        _setup(results),
        "## What it comes to",
        *findings(results),
        f"Ratios are geometric means over the {len(s.seeds)} seeds, which both losses share; brackets are 95 % "
        "intervals by bootstrap over the seeds, and a ratio counts as smaller or larger if its interval does not hold "
        "1. They leave out that another search would find other hyperparameters. If two losses were equal, all "
        f"{len(s.seeds)} seeds would be on one side with probability {2.0 ** (1 - len(s.seeds)):.2g}.",
        "## Exact metrics",
        "Median ± interquartile range over the seeds, for the best hyperparameters of each pair. L1, JSD, KL (nats) "
        "and the mass of the modes (1 is right) are those of the policy's exact terminating distribution. *Modes "
        "found* counts all that training ended in, as published.",
    ]
    for clamp in s.clamps:
        blocks += [f"### {UNDER[clamp]}", markdown_table(_exact(results, clamp), words=2)]
    blocks += [
        "## Metrics of samples, beside the paper",
        f"Median ± interquartile range. *Perfect* is what {s.samples} samples of the target itself score.",
    ]
    for measure, title in TITLES.items():
        blocks += [f"### {title}", markdown_table(_beside(results, measure), words=2)]
    if results.families:
        blocks += [
            "## The modified losses beside the others",
            "How many times as large the exact L1 of the modified loss is: at the end, and on average over the "
            "training; in how many seeds it is smaller.",
            markdown_table(_compared(results), words=3),
            "## What the clamp explains",
            "By how much the L1 of the original loss exceeds that of the modified one: as published (of samples), and "
            "here (exact medians; brackets are 95 % intervals by bootstrap over the seeds). *Explained* is the part of "
            "the gap with the clamp of the batch that is gone without; *frozen* counts runs whose loss that clamp cut "
            "off in more than half of the iterations.",
            markdown_table(_explained(results), words=2),
        ]
    blocks += [
        "## Gradient clips",
        "Median of the best fifth of the trials (least to greatest); in brackets as published, where it is.",
        *(
            block
            for clamp in s.searched
            for block in (f"Searched under the clamp *{clamp}*:", markdown_table(_clips(results, clamp)))
        ),
    ]
    if drawn:
        blocks += ["## Figures", *(f"![{name.removesuffix('.svg')}](figures/{name})" for name in drawn)]
    return "\n\n".join(blocks) + "\n"


def _setup(results: Results) -> str:
    s = results.settings
    source = f"searched under the clamp {' and under '.join(s.searched)}"
    borrowed = [clamp for clamp in s.clamps if clamp not in s.searched]
    taken = f"; what none found is taken for {' and '.join(borrowed)} as well" if borrowed else ""
    return (
        f"HyperGrid with {s.dimensions} dimensions of height {s.height}, base reward {s.base:g}. Hyperparameters: "
        f"{s.trials} trials of {s.search_iterations} iterations for each loss and reward (seed {s.search_seed}), "
        f"{source}{taken}. Confirmation: {s.iterations} iterations with the seeds {', '.join(map(str, s.seeds))}, "
        f"{len(results.outcomes)} runs. Batches of {s.batch}, replay of {s.capacity}, {s.depth} layers of {s.width}."
    )


# -- tables ------------------------------------------------------------------------------------------------------------


def _exact(results: Results, clamp: str) -> Rows:
    yield (
        "reward", "loss", "L1", "JSD", "KL", "mass of the modes", "error of log Z", "modes found", "frozen", "stuck",
    )  # fmt: skip
    for reward in results.settings.rewards:
        for loss in results.settings.losses:
            runs = results.runs(clamp, reward, loss)
            cells = [_spread(results.spread(clamp, reward, loss, m)) for m in ("l1", "jsd", "kl")]
            cells += [_spread(results.spread(clamp, reward, loss, m), 3) for m in ("mode_mass", "log_z_error")]
            cells += [_spread(results.spread(clamp, reward, loss, m), 3) for m in ("coverage", "frozen")]
            yield reward, loss, *cells, str(sum(o.stuck for o in runs))


def _beside(results: Results, measure: str) -> Rows:
    s = results.settings
    floor = {"sampled_l1": 0, "sampled_jsd": 1}.get(measure)
    yield "reward", "loss", "published", *s.clamps, *([] if floor is None else ["perfect"])
    for reward in s.rewards:
        for loss in s.losses:
            ours = [_spread(results.spread(clamp, reward, loss, measure), 3) for clamp in s.clamps]
            perfect = [] if floor is None else [_number(results.floors[reward][floor], 4)]
            yield reward, loss, _spread(PUBLISHED[measure][reward, loss], 3), *ours, *perfect


def _compared(results: Results) -> Rows:
    yield "clamp", "losses", "reward", "L1 at the end", "smaller in", "L1 on average", "smaller in"
    found = {(c.clamp, c.modified, c.reward, c.measure): c for c in results.comparisons()}
    for (clamp, modified, reward, measure), c in found.items():
        if measure == "l1":
            whole = found[clamp, modified, reward, "mean_l1"].ratio
            name = f"**{reward}**" if reward == ALL else reward
            first, second = (f"{r.smaller} of {r.pairs}" for r in (c.ratio, whole))
            yield clamp, f"{modified} / {c.original}", name, bounds(c.ratio), first, bounds(whole), second


def _explained(results: Results) -> Rows:
    s = results.settings
    yield "reward", "gap", "published", *s.clamps, "explained", "frozen"
    for e in results.explained():
        share = "-" if math.isnan(e.share) else f"{100 * min(max(e.share, 0), 1):.0f} %"
        gaps = ["-" if math.isnan(e.gaps[clamp].mean) else differs(e.gaps[clamp], 4) for clamp in s.clamps]
        frozen = f"{e.original} {e.frozen[1]}, {e.modified} {e.frozen[0]}" if "batch" in s.clamps else "-"
        yield e.reward, f"{e.original} - {e.modified}", _number(e.published, 3), *gaps, share, frozen


def _clips(results: Results, clamp: str) -> Rows:
    s = results.settings
    yield "reward", *s.losses
    for reward in s.rewards:
        theirs = dict(zip(("LPV", "ModLPV"), CLIPS[reward], strict=True))
        cells: list[str] = []
        for loss in s.losses:
            clips = [t.clip for t in results.best(clamp, reward, loss)]
            published = f" [{theirs[loss]}]" if loss in theirs else ""
            own = f"{median(clips):.3g} ({min(clips):.2g} to {max(clips):.2g})" if clips else "-"
            cells.append(own + published)
        yield reward, *cells


def _number(x: float, digits: int) -> str:
    return "-" if math.isnan(x) else f"{x:.{digits}f}"


def _spread(s: MedianSpread, digits: int = 4) -> str:
    return "-" if math.isnan(s.median) else f"{s.median:.{digits}f} ± {s.iqr:.{digits}f}"
