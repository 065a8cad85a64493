"""Options under limits: the pool of all in a setting, and the planner that calibrates, chooses and lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from hlmtheory.skipping.calibration import calibrate_threshold
from validation.arrays import Array
from validation.decoding.intervals import ratio
from validation.decoding.methods import rows
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD
from validation.decoding.seconds import PASSES, UP
from validation.errors import UserError
from validation.estimates import Estimate
from validation.planning.bound import Model
from validation.planning.option import Line, Option
from validation.planning.positions import THRESHOLDS
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting
from validation.planning.split import Split
from validation.planning.streamed import Streamed

_TOLD = 1e-9  # bits: a logarithm is rounded
_KEPT = 8  # settings whose options stay in memory
EQUAL = 1e-9  # Relative: values that differ by less are equal


def group_of(option: Option) -> int | str:
    """Return what an option shares its calibration with: its codec, or for the papers' policies policy and message."""
    if option.family in (rows.U_HLM, rows.CU_HLM):
        return f"{option.family}, {option.message}"
    return option.codec or 0


def _level(option: Option) -> float:
    return 1.0 if option.family == rows.DEVICE else option.threshold


class Pool:
    """All options in a setting, as arrays: one entry for each option, in the order of the options."""

    def __init__(self, planner: Planner, setting: Setting) -> None:
        self.train, self.test = planner.part_totals
        drawn = None if planner.streamed is None else planner.streamed.option(setting)
        self.options, self.setting = [*planner.options, *([drawn] if drawn else [])], setting
        if drawn is not None:
            self.train, self.test = (
                np.concatenate([whole, drawn.counts[part].sum(axis=0)[None]])
                for whole, part in ((self.train, planner.split.train), (self.test, planner.split.test))
            )
        families = np.array([option.family for option in self.options])
        self.places = {family: np.flatnonzero(families == family) for family in rows.ROWS}
        if setting.verify_token_s <= 0:  # then the widest tree costs no more than one draft
            self.places |= {family: np.array([], dtype=np.int64) for family in rows.TREES}
        if setting.risk_limit <= 0:
            self.places[rows.CERTIFIED] = self.places[rows.KEEPING] = np.array([], dtype=np.int64)
        self.lossless = np.array([option.lossless for option in self.options])
        self.value = setting.value(self.train)
        capacity = setting.objective == "capacity"
        self.second = np.mean(setting.speeds(self.train), axis=-1) if capacity else -load(setting, self.train)
        self.broken = planner.limits(self)
        self.kept = ~np.any(list(self.broken.values()), axis=0)
        for family in (rows.U_HLM, rows.CU_HLM):  # if none keeps the limits, that of the paper's own threshold
            if not self.kept[self.places[family]].any():
                at = [self.options[place].threshold == planner.paper_threshold() for place in self.places[family]]
                self.places[family] = self.places[family][np.array(at, dtype=bool)]

    def breaks(self, place: int) -> tuple[str, ...]:
        return tuple(name for name, mask in self.broken.items() if mask[place])

    def best(self, places: Array, worth: Array | None = None) -> int | None:
        """Return the best of some options that keeps the limits, else the best of all; None if there is none."""
        if not len(places):
            return None
        kept = places[self.kept[places]]
        pool = kept if len(kept) else places
        values = (self.value if worth is None else worth)[pool]
        equal = pool[values >= values.max() * (1.0 - EQUAL)]
        return int(equal[np.argmax(self.second[equal])])


def load(setting: Setting, total: Array) -> Array:
    """Return the seconds of a full server for a token."""
    return np.asarray(setting.server_seconds(total, setting.server_batch) / total[..., 0])


@dataclass(frozen=True, eq=False)
class Planner:
    """Options, a setting and a split, of which plans are made; ``dataclasses.replace`` makes one with other parts.

    What a planner has computed is its own, so that nothing of it holds for another.
    """

    options: Sequence[Option]  # whose counts no setting changes
    setting: Setting
    split: Split
    line: Line | None = None
    model: Model | None = None
    streamed: Streamed | None = None
    _pools: dict[Setting, Pool] = field(default_factory=dict, init=False)
    _held: dict[tuple[str, float, int | str], float] = field(default_factory=dict, init=False)
    _allowed: dict[tuple[int | str, str], tuple[Array, Array]] = field(default_factory=dict, init=False)

    @cached_property
    def part_totals(self) -> tuple[Array, Array]:
        """The total counts of the options on the training and the test texts, (options, counts) each."""
        parts = (self.split.train, self.split.test)
        train, test = (np.stack([option.counts[part].sum(axis=0) for option in self.options]) for part in parts)
        return train, test

    def pool(self, setting: Setting) -> Pool:
        if setting not in self._pools:
            self._pools[setting] = Pool(self, setting)
            if len(self._pools) > _KEPT:
                del self._pools[next(iter(self._pools))]
        return self._pools[setting]

    def totals(self, options: Sequence[Option]) -> Array:
        """Return the total counts of options on the training texts, (options, counts)."""
        return np.stack([option.counts[self.split.train].sum(axis=0) for option in options])

    def threshold(self, setting: Setting, group: int | str = 0) -> float:
        """Return the largest threshold whose loss the calibration prompts allow; -inf: nothing may be skipped."""
        kind, limit = key = setting.risk_kind, setting.risk_limit
        if limit >= 1:  # every text is within 1
            return np.inf
        if (*key, group) not in self._held:
            levels, losses = self._levels(group, kind)
            some = len(levels) and limit > 0 and (len(losses) + 1) * limit >= 1
            largest = calibrate_threshold(losses, levels, risk=limit, bound=1.0).threshold if some else -np.inf
            self._held[*key, group] = float(largest)
        return self._held[*key, group]

    def _levels(self, group: int | str, kind: str) -> tuple[Array, Array]:
        """Return the thresholds of a group, and the calibration prompts' losses up to each, (prompts, levels)."""
        by_level = {
            option.threshold: option
            for option in self.options
            if option.family in (rows.OURS, rows.U_HLM, rows.CU_HLM)
            and option.draft_length == 1
            and option.threshold > -np.inf
            and group_of(option) == group
        }
        levels = np.array(sorted(by_level))
        if not len(levels):
            return levels, np.zeros((self.split.prompts["calibrate"], 0))
        losses = np.stack([self._loss(by_level[level], kind) for level in levels.tolist()], axis=-1)
        return levels, self.split.means(np.maximum.accumulate(np.clip(losses, 0.0, 1.0), axis=-1), self.split.calibrate)

    @staticmethod
    def _loss(option: Option, kind: str) -> Array:
        return option.loss if kind == "text" else option.token_loss

    def limits(self, pool: Pool) -> dict[str, Array]:
        setting = pool.setting
        broken = {"risk": np.array([not self.safe(option, setting) for option in pool.options])}
        if setting.latency_s is not None:
            rate = np.array([setting.link.quantile(setting.latency_share)])
            broken["latency"] = setting.round_seconds(pool.train, rate)[..., 0] > setting.latency_s
        if setting.energy_j is not None:
            joules = setting.joules(pool.train, setting.link.quantile(0.5))
            broken["energy"] = joules / pool.train[:, 0] > setting.energy_j
        if setting.leak_bits is not None:
            broken["leak"] = np.array([option.leak_bits > setting.leak_bits + _TOLD for option in pool.options])
        return broken

    def safe(self, option: Option, setting: Setting) -> bool:
        if option.lossless or setting.risk_limit <= 0:
            return option.lossless
        if option.row.calibrated:
            return _level(option) <= self.threshold(setting, group_of(option)) + 1e-9
        return self.charged(option, setting.risk_kind) <= setting.risk_limit

    def charged(self, option: Option, kind: str) -> float:
        """Return the risk of an option without a calibrated threshold: the largest loss of a text, which is proved."""
        return float(self._loss(option, kind).max())

    def paper_threshold(self) -> float:
        """Return the largest threshold up to the papers' own, the fitted line's, or else a fixed one."""
        prone = CHOSEN_THRESHOLD if self.line is None else self.line.prone
        return float(THRESHOLDS[max(int(np.searchsorted(THRESHOLDS, prone + 1e-9, side="right")), 1) - 1])

    def candidates(self, family: str, setting: Setting, *, lossless: bool = False) -> list[Option]:
        """Return the options of a family that a pool lists; ``lossless``: as if no risk were allowed."""
        pool = self.pool(replace(setting, risk_limit=0.0) if lossless else setting)
        return [pool.options[place] for place in pool.places[family]]

    def best(self, families: Iterable[str], setting: Setting) -> Option | None:
        """Return the best option of some families on the training texts; None if none keeps the limits."""
        pool = self.pool(setting)
        place = pool.best(np.concatenate([pool.places[family] for family in families]))
        return None if place is None or not pool.kept[place] else pool.options[place]

    def ours(self, setting: Setting) -> Option | None:
        return self.best([name for name, row in rows.ROWS.items() if row.ours], setting)

    def chosen(self, setting: Setting) -> Option:
        """Return the best option of all that are known to run."""
        best = self.best([name for name in rows.ROWS if name not in rows.UNRUN], setting)
        if best is None:
            raise UserError(self.nearest(self.pool(setting)))
        return best

    def streamed_bound(self, setting: Setting, *, tokens_alone: bool) -> float:
        """Return a speed in tokens/s that no lossless device exceeds that drafts on: :meth:`Streamed.least_seconds`."""
        if self.streamed is None:
            return 0.0
        texts = self.split.train
        least = self.streamed.least_seconds(setting, texts, tokens_alone=tokens_alone)
        return float(self.streamed.lengths[texts].sum()) / least

    def nearest(self, pool: Pool) -> str:
        """Return the sentence that says which limits could be kept instead."""
        setting = pool.setting
        if setting.latency_s is not None:
            rate = np.array([setting.link.quantile(setting.latency_share)])
            least = float(setting.round_seconds(pool.train[~pool.broken["risk"]], rate)[:, 0].min())
            step = 10.0 ** (np.floor(np.log10(1e3 * least)) - 2)  # of three digits, rounded up to suffice as a limit
            if least > setting.latency_s:
                return (
                    f"--latency p{100 * setting.latency_share:g}={1e3 * setting.latency_s:g}ms cannot be kept: the "
                    f"shortest round takes {1e3 * least:.1f} ms; allow {np.ceil(1e3 * least / step) * step:g}ms."
                )
        return "No policy keeps all limits together; allow a longer round, more energy or more sizes."

    def least_limit(self, option: Option, kind: str) -> float | None:
        """Return the smallest limit of a risk that allows an option; 0 if it is lossless, None if none can be found."""
        if option.lossless:
            return 0.0
        if not option.row.calibrated:
            return self.charged(option, kind)
        if not len(self.split.calibrate):
            return None
        key = (group_of(option), kind)
        if key not in self._allowed:
            levels, losses = self._levels(*key)
            self._allowed[key] = levels, np.asarray((losses.sum(axis=0) + 1.0) / (len(losses) + 1))
        levels, limits = self._allowed[key]
        below = int(np.searchsorted(levels, _level(option) + 1e-9, side="right"))
        return float(limits[below - 1]) if below else None

    def menu(self) -> list[dict[str, Any]]:
        """Return every option as plain values, for a page that makes plans for other links and limits."""
        dear = replace(self.setting, verify_token_s=self.setting.verify_token_s or 1e-12)  # so that trees are listed
        usual = {option for family in rows.ROWS for option in self.candidates(family, dear, lossless=True)}
        entries = []
        allowed = np.inf if self.setting.leak_bits is None else self.setting.leak_bits
        for option in self.options:
            if option.leak_bits > allowed + _TOLD or option.family == rows.KEEPING:
                continue  # a server that repeats the rounds of a device that skips follows from that device's
            train, test = (option.counts[part].sum(axis=0) for part in (self.split.train, self.split.test))
            losses = (("text", option.loss), ("token", option.token_loss))
            entries.append(
                {
                    "policy": option.family,
                    "option": option.label,
                    "draft_length": float(option.draft_length),
                    "threshold": float(option.threshold) if np.isfinite(option.threshold) else None,
                    "codec": option.codec,
                    "top_k": list(option.top_k),
                    "counts": {"train": (train / train[0]).tolist(), "test": (test / test[0]).tolist()},
                    "loss": {kind: float(self.split.means(loss, self.split.test).mean()) for kind, loss in losses},
                    "lossless": option.lossless,
                    "allowed": {kind: self.least_limit(option, kind) for kind in ("text", "token")},
                    "paper_threshold": option in usual,
                }
            )
        return entries

    def streamed_menu(self) -> dict[str, Any] | None:
        """Return what makes the option of a device that drafts on, for a page; None without a shared seed."""
        if self.streamed is None:
            return None
        parts = {"train": self.split.train, "test": self.split.test, "all": np.arange(len(self.streamed.lengths))}
        tokens = {name: float(self.streamed.lengths[part].sum()) for name, part in parts.items()}
        streaks = {name: self.streamed.streaks[part].sum(axis=0) / tokens[name] for name, part in parts.items()}
        return {
            "streaks": {name: np.trim_zeros(values, "b").tolist() for name, values in streaks.items()},
            "message_bits": self.streamed.message_bits,
            "reply_bits": self.streamed.reply_bits,
        }

    def lengths(self, texts: Array | None = None) -> list[tuple[int, float, float]]:
        """Return K, tokens a round and tokens/s of a server with its own draft, by default on the held-out texts."""
        texts = self.split.test if texts is None else texts
        own = self.candidates(rows.COLOCATED, self.setting)
        totals = {int(option.draft_length): option.counts[texts].sum(axis=0) for option in own}
        passes, speeds = COUNTS.index("passes"), {k: np.mean(self.setting.speeds(total)) for k, total in totals.items()}
        return [(k, float(totals[k][0] / totals[k][passes]), float(speeds[k])) for k in sorted(totals)]

    def gain(self, option: Option, rival: Option, *, full: bool = False) -> Estimate:
        """Return the gain in speed of an option over a rival on held-out prompts, for one user or a full server."""
        counts = (self.split.sums(one.counts, self.split.test) for one in (rival, option))
        of_server = partial(self.setting.server_seconds, batch=self.setting.server_batch)
        return ratio(*map(of_server if full else self.setting.mean_seconds, counts)) + -1.0

    def alike(self, option: Option) -> tuple[int, int]:
        """Return the least and the largest draft length of its policy whose speed prompts do not tell apart."""
        others = self.candidates(option.family, self.setting)
        lengths = [int(other.draft_length) for other in others if not self.gain(option, other).sign]
        return min([*lengths, int(option.draft_length)]), max([*lengths, int(option.draft_length)])

    def value_of(self, option: Option, setting: Setting) -> float:
        """Return what an option makes of the objective on the training texts."""
        return float(setting.value(self.totals([option])[0]))

    def binding(self, option: Option) -> str:
        """Return what limits the plan: the limit that is reached, or the longest part of its time."""
        setting = self.setting
        total = option.counts[self.split.test].sum(axis=0)
        parts = {name: float(value) for name, value in setting.parts(total, setting.link.quantile(0.5)).items()}
        if np.isinf(parts[UP]):
            return "the uplink is down at its median"
        own = float(total[COUNTS.index("server_drafts")] * setting.own_draft_s)
        parts |= {"passes of the target": parts.pop(PASSES) - own, "drafts on the server": own}
        whole = sum(parts.values()) or 1.0
        most = sorted(((value / whole, name) for name, value in parts.items()), reverse=True)[:2]
        shares = " and ".join(f"{name} ({share:.0%})" for share, name in most if share >= 0.005)
        sentence = f"time goes to {shares}" if shares else "nothing takes time"
        limits = self.active_limits(option)
        return f"{sentence}; a looser {' or '.join(limits)} would allow a better plan" if limits else sentence

    def active_limits(self, option: Option) -> list[str]:
        """Return the limits without which a better option is allowed."""
        setting, now = self.setting, self.value_of(option, self.setting)
        free: dict[str, dict[str, Any]] = {}
        if setting.risk_limit > 0:
            free["--risk"] = {"risk_kind": "text", "risk_limit": 1.0}
        if setting.latency_s is not None:
            free["--latency"] = {"latency_s": None}
        if setting.energy_j is not None:
            free["--energy"] = {"energy_j": None}
        others = {name: replace(setting, **change) for name, change in free.items()}
        better = now * (1 + EQUAL)
        return [name for name, looser in others.items() if self.value_of(self.chosen(looser), looser) > better]
