"""A plan: the best option of every policy under the limits, predicted on held-out prompts, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import ConfidentThreshold, audit_wealth, calibrate_threshold, confident_threshold, text_risk
from validation.decoding.intervals import ratio
from validation.errors import UserError
from validation.planning.bound import Model
from validation.planning.menu import (
    CERTIFIED,
    CU_HLM,
    DEVICE,
    FAMILIES,
    NO_RIVALS,
    OURS,
    SERVER,
    STREAMED,
    U_HLM,
    WITHOUT_DEVICE,
    Line,
    Option,
    column_of,
)
from validation.planning.positions import THRESHOLDS
from validation.planning.profile import SEEDED
from validation.planning.rounds import COUNTS
from validation.planning.rows import MEASURED, PROVED, Number, Row, measured_number, measured_speed
from validation.planning.setting import Setting
from validation.planning.split import Split
from validation.planning.streamed import Streamed
from validation.planning.words import explanation, headline

Array = NDArray[Any]
_HALVINGS = 30  # of a limit
_TOLD = 1e-9  # bits: a logarithm is rounded
_BUDGET = 0.3  # of a page whose command has none


class Planner:
    """Options, a setting and a split; every plan for a changed setting is made from them.

    Parameters
    ----------
    options : sequence of Option
    setting : Setting
    split : Split
    line : Line, optional
        For the thresholds that the papers derive from it.
    model : Model, optional
        For the bound on what a better choice could give.
    streamed : Streamed, optional
        For a device of ours that drafts while the server verifies.
    """

    def __init__(
        self,
        options: Sequence[Option],
        setting: Setting,
        split: Split,
        line: Line | None = None,
        model: Model | None = None,
        streamed: Streamed | None = None,
    ) -> None:
        self.streamed, self._streams = streamed, dict[int, tuple[Setting, list[Option]]]()
        self.options, self.setting, self.split, self.line, self.model = options, setting, split, line, model
        self._totals = {id(one): one.counts[split.train].sum(axis=0) for one in options}
        self._held: dict[tuple[str, float, int, float | None], float] = {}
        self._codecs: dict[int, tuple[Setting, int | None]] = {}
        self._rivals: dict[int, tuple[Setting, Option]] = {}
        self._allowed: dict[tuple[int, str], tuple[Array, Array]] = {}

    def totals(self, options: Sequence[Option]) -> Array:
        """Return the total counts of options on the training texts, (options, counts)."""
        return np.stack([self._totals[id(one)] for one in options])

    # ----------------------------------------------------------------------------------------------- limits

    def threshold(self, setting: Setting, codec: int = 0) -> float:
        """Return the largest threshold whose loss the calibration prompts allow; -inf: nothing may be skipped.

        Each codec has its own, because a first draft is drawn from the codec's row also if it is then skipped.
        """
        key = (setting.risk_kind, setting.risk_limit, codec, setting.confidence)
        if key not in self._held:
            self._held[key] = self._calibrated(*key)
        return self._held[key]

    def _calibrated(self, kind: str, limit: float, codec: int, confidence: float | None) -> float:
        prompts = self.split.prompts["calibrate"]
        if limit >= 1:  # every text is within 1
            return np.inf
        if limit <= 0 or not prompts:
            return -np.inf
        if confidence is not None:
            found = self.confident(kind, limit, codec, confidence)
            return -np.inf if found is None else found.threshold
        if (prompts + 1) * limit < 1:
            return -np.inf
        levels, losses = self._levels(codec, kind)
        if not len(levels):
            return -np.inf
        return float(calibrate_threshold(losses, levels, risk=limit, bound=1.0).threshold)

    def confident(self, kind: str, limit: float, codec: int, confidence: float) -> ConfidentThreshold | None:
        """Return the largest threshold that keeps the limit with this confidence; None without thresholds."""
        levels, losses = self._levels(codec, kind)
        if not len(levels) or not len(losses):
            return None
        return confident_threshold(losses, levels, risk=limit, error=1.0 - confidence)

    def codec(self, setting: Setting) -> int | None:
        """Return the one codec that a limit with confidence is calibrated for; None if the training texts allow none.

        The choice is made on the training texts alone, so that calibration looks at one row of thresholds.
        """
        if id(setting) not in self._codecs:
            kind, limit = setting.risk_kind, setting.risk_limit
            pool = [one for one in self.options if one.family == OURS and one.threshold > -np.inf]
            pool = [one for one in pool if self._mean_loss(one, kind, self.split.train) <= limit]
            best = pool[int(np.argmax(setting.value(self.totals(pool))))].codec if pool else None
            self._codecs[id(setting)] = setting, best
        return self._codecs[id(setting)][1]

    def _levels(self, codec: int, kind: str) -> tuple[Array, Array]:
        """Return the thresholds of a codec, and the calibration prompts' losses up to each, (prompts, levels).

        A text's loss is its largest up to the threshold, a prompt's the mean over its texts.
        """
        own = {
            one.threshold: one
            for one in self.options
            if one.family == OURS and one.draft_length == 1 and one.codec == codec and one.threshold > -np.inf
        }
        levels = np.array(sorted(own))
        if not len(levels):
            return levels, np.zeros((self.split.prompts["calibrate"], 0))
        losses = np.stack([self._loss(own[level], kind) for level in levels.tolist()], axis=-1)
        return levels, self.split.means(np.maximum.accumulate(np.clip(losses, 0.0, 1.0), axis=-1), self.split.calibrate)

    @staticmethod
    def _loss(option: Option, kind: str) -> Array:
        return option.loss if kind == "text" else option.token_loss

    def _mean_loss(self, option: Option, kind: str, texts: Array) -> float:
        """Return the mean over the prompts of some texts."""
        return float(self.split.means(self._loss(option, kind), texts).mean())

    def broken(self, option: Option, setting: Setting) -> tuple[str, ...]:
        """Return the limits that an option breaks."""
        found = []
        total = self._totals[id(option)]
        if not self.safe(option, setting):
            found.append("risk")
        if setting.latency_s is not None:
            rate = setting.link.quantile(setting.latency_share)
            if float(setting.round_seconds(total, np.array([rate]))[0]) > setting.latency_s:
                found.append("latency")
        if setting.energy_j is not None and self._joules(option, setting) > setting.energy_j:
            found.append("energy")
        if setting.leak_bits is not None and option.leak_bits > setting.leak_bits + _TOLD:
            found.append("leak")
        return tuple(found)

    def safe(self, option: Option, setting: Setting) -> bool:
        """Return whether an option keeps the limit of the risk."""
        if option.lossless:
            return True
        if setting.risk_limit <= 0:
            return False
        if option.family in (OURS, DEVICE):
            level = 1.0 if option.family == DEVICE else option.threshold
            if setting.confidence is not None and (option.codec or 0) != self.codec(setting):
                return setting.risk_limit >= 1
            return level <= self.threshold(setting, option.codec or 0) + 1e-9
        return self._charged(option, setting.risk_kind) <= setting.risk_limit

    def _charged(self, option: Option, kind: str) -> float:
        """Return the risk of an option without a calibrated threshold: what is proved of it, or its measured mean."""
        if option.family == CERTIFIED:
            return float(self._loss(option, kind).max())
        return self._mean_loss(option, kind, self.split.seen)

    def _joules(self, option: Option, setting: Setting) -> float:
        total = self._totals[id(option)]
        return float(setting.joules(total, setting.link.quantile(0.5)) / total[0])

    # ------------------------------------------------------------------------------------------------ choice

    def candidates(self, family: str, setting: Setting, *, lossless: bool = False) -> list[Option]:
        """Return the options of a family that its paper allows; ``lossless``: as if no risk were allowed."""
        own = [one for one in self.options if one.family == family]
        if family == STREAMED:
            return self._streamed(setting)
        if family == CERTIFIED and (lossless or setting.risk_limit <= 0):
            return []
        if family in (U_HLM, CU_HLM) and (lossless or setting.risk_limit <= 0):  # the papers' thresholds
            prone = column_of(self.line.prone) if self.line is not None else len(THRESHOLDS) * 4 // 5
            level = THRESHOLDS[max(prone, 1) - 1]
            return [one for one in own if one.threshold == level]
        return own

    def _streamed(self, setting: Setting) -> list[Option]:
        """Return the option of a device that drafts while the server verifies: its passes depend on the times."""
        if id(setting) not in self._streams:
            found = None if self.streamed is None else self.streamed.option(setting)
            own = [] if found is None else [found]
            self._totals |= {id(one): one.counts[self.split.train].sum(axis=0) for one in own}
            self._streams[id(setting)] = setting, own
        return self._streams[id(setting)][1]

    def again(self, option: Option, setting: Setting) -> Option:
        """Return an option of ours as it is in another setting: a device that drafts on does so, or else in rounds."""
        if option.family != STREAMED:
            return option
        own = [one for one in self.options if one.family == OURS and one.codec == SEEDED and one.lossless]
        found = [*self.candidates(STREAMED, setting), *own]
        return found[0] if found[0].family == STREAMED else found[int(np.argmax(setting.value(self.totals(found))))]

    def streamed_bound(self, setting: Setting, *, tokens_alone: bool) -> float:
        """Return a speed in tokens/s that no lossless device exceeds that drafts on: :meth:`Streamed.least_seconds`."""
        if self.streamed is None:
            return 0.0
        texts = self.split.train
        least = self.streamed.least_seconds(setting, texts, tokens_alone=tokens_alone)
        return float(self.streamed.lengths[texts].sum()) / least

    def best(self, family: str, setting: Setting) -> tuple[Option, tuple[str, ...]] | None:
        """Return the best option of a family that keeps the limits, else its best with the limits that it breaks."""
        own = self.candidates(family, setting)
        if not own:
            return None
        values = setting.value(self.totals(own))
        broken = [self.broken(one, setting) for one in own]
        order = sorted(range(len(own)), key=lambda i: (len(broken[i]) > 0, -values[i]))
        return own[order[0]], broken[order[0]]

    def ours(self, setting: Setting, *, streams: bool = True) -> tuple[Option, tuple[str, ...]]:
        """Return the best option of all that keep the limits, whatever the policy; ``streams``: one may draft on."""
        pool = [one for one in self.options if one.family in (OURS, SERVER, DEVICE, CERTIFIED)]
        allowed = [one for one in pool if self.safe(one, setting)]
        allowed += self.candidates(STREAMED, setting) if streams else []
        values = setting.value(self.totals(allowed))
        for place in np.argsort(-values, kind="stable").tolist():
            if not self.broken(allowed[place], setting):
                return allowed[place], ()
        raise UserError(self.nearest(allowed, setting))

    def nearest(self, pool: Sequence[Option], setting: Setting) -> str:
        """Return the sentence that says which limits could be kept instead."""
        total = self.totals(pool)
        said = []
        if setting.latency_s is not None:
            rate = setting.link.quantile(setting.latency_share)
            least = float(setting.round_seconds(total, np.array([rate]))[:, 0].min())
            if least > setting.latency_s:
                said.append(
                    f"--latency p{100 * setting.latency_share:g}={1e3 * setting.latency_s:g}ms cannot be kept: the "
                    f"shortest round takes {1e3 * least:.1f} ms; allow {_up(1e3 * least)}ms"
                )
        if setting.energy_j is not None:
            least = min(self._joules(one, setting) for one in pool)
            if least > setting.energy_j:
                said.append(
                    f"--energy {1e3 * setting.energy_j:g}mJ cannot be kept: the least is {1e3 * least:.3g} mJ a token; "
                    f"allow {_up(1e3 * least)}mJ"
                )
        if not said:
            said.append("No policy keeps --latency and --energy together; allow a longer round or more energy")
        return "; ".join(said) + "."

    def least_limit(self, option: Option, kind: str) -> float | None:
        """Return the smallest limit of a risk that allows an option; 0 if it is lossless, None if none can be found.

        Options of ours need the corrected mean of the calibration prompts, at all thresholds up to their own, or with a
        confidence an upper bound on it. Others are held against their mean loss.
        """
        if option.lossless:
            return 0.0
        if option.family not in (OURS, DEVICE):
            return self._charged(option, kind)
        if not len(self.split.calibrate):
            return None
        level = 1.0 if option.family == DEVICE else option.threshold
        key = (option.codec or 0, kind)
        if key not in self._allowed:
            levels, losses = self._levels(*key)
            self._allowed[key] = levels, self._least(losses)
        levels, limits = self._allowed[key]
        below = int(np.searchsorted(levels, level + 1e-9, side="right"))
        return float(limits[below - 1]) if below else None

    def _least(self, losses: Array) -> Array:
        """Return the least limit that allows each threshold."""
        if self.setting.confidence is None:
            return np.asarray((losses.sum(axis=0) + 1.0) / (len(losses) + 1))
        goal = -np.log1p(-self.setting.confidence)
        low, high = np.zeros(losses.shape[1]), np.ones(losses.shape[1])
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            enough = audit_wealth(losses.T, 1.0, middle)[:, -1] > goal
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.maximum.accumulate(high)

    def menu(self) -> list[dict[str, Any]]:
        """Return every option as plain values, for a page that makes plans for other links and limits."""
        offered = None if self.setting.confidence is None else self.codec(self._with_budget())
        usual = {id(one) for family in FAMILIES for one in self.candidates(family, self.setting, lossless=True)}
        found = []
        allowed = np.inf if self.setting.leak_bits is None else self.setting.leak_bits
        for one in self.options:
            if one.leak_bits > allowed + _TOLD:
                continue
            train, test = (one.counts[part].sum(axis=0) for part in (self.split.train, self.split.test))
            found.append(
                {
                    "policy": one.family,
                    "option": one.label,
                    "use": headline(one),
                    "how": explanation(one),
                    "draft_length": float(one.draft_length),
                    "threshold": _finite(one.threshold),
                    "codec": one.codec,
                    "top_k": list(one.top_k),
                    "counts": {"train": (train / train[0]).tolist(), "test": (test / test[0]).tolist()},
                    "loss": {kind: self._mean_loss(one, kind, self.split.test) for kind in ("text", "token")},
                    "lossless": one.lossless,
                    "allowed": {
                        kind: self.least_limit(one, kind)
                        if offered is None or one.lossless or one.family != OURS or one.codec == offered
                        else None
                        for kind in ("text", "token")
                    },
                    "paper_threshold": id(one) in usual,
                }
            )
        return found

    def streamed_menu(self) -> dict[str, Any] | None:
        """Return what makes the option of a device that drafts on, for a page; None without a shared seed."""
        if self.streamed is None:
            return None
        parts = {"train": self.split.train, "test": self.split.test, "all": np.arange(len(self.streamed.lengths))}
        tokens = {name: float(self.streamed.lengths[part].sum()) for name, part in parts.items()}
        streaks = {name: self.streamed.streaks[part].sum(axis=0) / tokens[name] for name, part in parts.items()}
        shown = Option(STREAMED, "", np.zeros((0, 0)), 1, -np.inf, np.zeros(0), np.zeros(0), (0, 0))
        return {
            "streaks": {name: np.trim_zeros(values, "b").tolist() for name, values in streaks.items()},
            "message_bits": self.streamed.message_bits,
            "reply_bits": self.streamed.reply_bits,
            "words": {"use": headline(shown), "how": explanation(shown)},
        }

    def _with_budget(self) -> Setting:
        """Return the setting, with a budget where it has none, for the one codec that a page may offer."""
        return self.setting if self.setting.risk_limit > 0 else replace(self.setting, risk_limit=_BUDGET)

    # ------------------------------------------------------------------------------------------------- rows

    def rival(self, setting: Setting) -> Option:
        """Return the strongest option of all other policies that keeps the limits; of a server alone if none does."""
        if id(setting) not in self._rivals:
            others = [family for family in FAMILIES if family not in NO_RIVALS]
            best = [one for family in others if (one := self.best(family, setting)) is not None]
            kept = [option for option, broken in best if not broken]
            pool = kept or [option for option, _ in best if option.family in WITHOUT_DEVICE]
            values = setting.value(self.totals(pool))
            first = int(np.argmax(values >= values.max() * (1 - 1e-12)))  # of equal ones the first
            self._rivals[id(setting)] = setting, pool[first]
        return self._rivals[id(setting)][1]

    def row(self, family: str, setting: Setting | None = None) -> Row | None:
        """Return the row of a policy, predicted on the test prompts."""
        setting = setting or self.setting
        if family == OURS:
            option, broken = self.ours(setting)
        else:
            found = self.best(family, setting)
            if found is None:
                return None
            option, broken = found
        return self._described(family, option, broken, setting)

    def _described(self, family: str, option: Option, broken: tuple[str, ...], setting: Setting) -> Row:
        test, n = self.split.test, self.split.prompts["test"]
        counts = self.split.sums(option.counts, test)
        total = counts.sum(axis=0)
        c = dict(zip(COUNTS, total.tolist(), strict=True))
        median, slow = setting.link.quantile(0.5), setting.link.quantile(0.95)
        base = self.split.sums(self.rival(setting).counts, test)
        sends, every = c["exchanges"] > 0, len(np.unique(self.split.prompt))

        def measured(value: Any) -> Number:
            return Number(_finite(value), MEASURED, n)

        def size(value: float) -> Number:
            return Number(value if sends and value > 0 else None, PROVED if certified else MEASURED, every)

        def speed(rate: float) -> Number:
            return measured_speed(counts[:, 0], setting.seconds(counts, rate), n)

        loss, token = (
            measured_number(ratio(self.split.means(x, test), np.ones(n)), MEASURED, n)
            for x in (option.loss, option.token_loss)
        )
        if option.lossless:
            loss = token = Number(0.0, PROVED, None, 0.0, 0.0)
        elif option.family == CERTIFIED:
            loss, token = (Number(self._charged(option, kind), PROVED) for kind in ("text", "token"))
        elif family == OURS or (option.family == OURS and option.threshold > -np.inf):
            bound = text_risk(self.split.means(np.clip(option.loss, 0.0, 1.0), test))
            loss = Number(
                float(bound.mean),
                self._basis(setting),
                n,
                float(bound.low),
                float(bound.high),
            )
        threshold = Number(None if not np.isfinite(option.threshold) else float(option.threshold), PROVED)
        if np.isfinite(option.threshold):
            own = family == OURS
            threshold = Number(
                float(option.threshold),
                self._basis(setting) if own else MEASURED,
                self.split.prompts["calibrate" if own else "train"],
            )
        certified = option.family == CU_HLM and option.label.startswith("certified")
        up, joules = c["up_bits"], float(setting.joules(total, median))
        round_s = float(setting.round_seconds(total, np.array([slow]))[0])
        if option.family == STREAMED:  # it drafts and sends all the time; its counts hold only what is waited for
            whole = float(setting.seconds(total, median))
            up *= whole / (setting.draft_s * c["exchanges"])
            joules = whole * setting.device_w + up / max(median, 1e-9) * setting.transmit_w
            round_s = float(setting.seconds(total, slow)) / c["exchanges"]
        return Row(
            policy=family,
            option=option.label if option.family == family else f"{option.family} {option.label}".strip(),
            threshold=threshold,
            k_mean=size(option.top_k[0]),
            k_p95=size(option.top_k[1]),
            draft_length=Number(float(option.draft_length), MEASURED, n),
            bits=measured(c["up_bits"] / c["exchanges"] if sends else None),
            kilobytes_per_token=measured((up + c["down_bits"]) / 8e3 / c["tokens"] or None),
            tokens_per_s_median=speed(median),
            tokens_per_s_p95=speed(slow),
            tokens_per_s_mean=measured(float(np.mean(setting.speeds(total)))),
            gain=measured_speed(setting.seconds(base, median), setting.seconds(counts, median), n),
            text_risk=loss,
            token_risk=token,
            round_s=measured(round_s),
            joules_per_token=measured(joules / c["tokens"]),
            breaks=broken,
            counts={name: value / c["tokens"] for name, value in c.items()},
        )

    def _basis(self, setting: Setting) -> str:
        """Return what a calibrated number rests on."""
        sure = "" if setting.confidence is None else f", confidence {setting.confidence:g}"
        return f"calibrated on {self.split.prompts['calibrate']} prompts{sure}"

    def table(self) -> list[Row]:
        """Return a row for every policy, the strongest rival's first."""
        first = self.rival(self.setting).family
        order = (first, *(family for family in FAMILIES if family != first))
        return [row for family in order if (row := self.row(family)) is not None]

    def value_of(self, option: Option, setting: Setting) -> float:
        """Return what an option makes of the objective on the training texts."""
        return float(setting.value(self._totals[id(option)]))

    # --------------------------------------------------------------------------------------------- verdict

    def crossings(self, family: str = SERVER) -> tuple[float | None, float | None]:
        """Return the round trips in seconds between which the plan beats a policy without a device; None: no end there.

        Below the first and above the second no plan of ours is better than that policy.
        """
        setting = replace(self.setting, latency_s=None, energy_j=None)
        alone = [one for one in self.options if one.family == family]
        own = [one for one in self.options if one.family in (OURS, CERTIFIED) and self.safe(one, setting)]
        totals = self.totals([*alone, *own, *self.candidates(STREAMED, setting)])  # its passes know no round trip

        def beats(round_trip_s: float) -> bool:
            values = setting.with_link(round_trip_s=round_trip_s).value(totals)
            return bool(values[len(alone) :].max() > values[: len(alone)].max() * (1 + 1e-9))

        def edge(worse: float, better: float) -> float:
            for _ in range(12):
                middle = 0.5 * (worse + better)
                worse, better = (worse, middle) if beats(middle) else (middle, better)
            return better

        grid = [0.0, *np.geomspace(1e-4, 4.0, 40).tolist()]
        better = np.array([beats(x) for x in grid])
        if not better.any():
            return np.inf, -np.inf
        first, last = int(np.argmax(better)), int(len(better) - 1 - np.argmax(better[::-1]))
        low = None if first == 0 else edge(grid[first - 1], grid[first])
        high = None if last == len(grid) - 1 else edge(grid[last + 1], grid[last])
        return low, high

    def binding(self, option: Option) -> str:
        """Return what limits the plan: the limit that is reached, or the longest part of its time."""
        setting = self.setting
        total = option.counts[self.split.test].sum(axis=0)
        c = dict(zip(COUNTS, total.tolist(), strict=True))
        rate = setting.link.quantile(0.5)
        parts = {
            "passes of the draft model": c["drafts"] * setting.draft_s,
            "passes of the target model": float(setting.server_seconds(total)),
            "round trips": c["exchanges"] * setting.link.round_trip_s,
            "the uplink": c["up_bits"] / rate if rate else 0.0,
            "the downlink": c["down_bits"] / setting.link.down_bps,
        }
        name = max(parts, key=lambda one: parts[one])
        whole = sum(parts.values())
        if not rate and c["up_bits"] > 0:
            return "the uplink is down at its median"
        said = f"{name} take {parts[name] / whole:.0%} of its time" if whole else "nothing takes time"
        limits = self.active_limits(option)
        return f"{', '.join(limits)} binds; {said}" if limits else said

    def active_limits(self, option: Option) -> list[str]:
        """Return the limits without which a better option is allowed."""
        setting, found = self.setting, []
        now = self.value_of(option, setting)
        free = {
            "--risk": {"risk_kind": "text", "risk_limit": 1.0} if setting.risk_limit > 0 else None,
            "--latency": {"latency_s": None} if setting.latency_s is not None else None,
            "--energy": {"energy_j": None} if setting.energy_j is not None else None,
        }
        for name, change in free.items():
            if change is not None:
                other, _ = self.ours(replace(setting, **change))
                if self.value_of(other, setting) > now * (1 + 1e-9):
                    found.append(name)
        return found


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _up(value: float) -> str:
    """Return a number rounded up to three digits, so that it suffices as a limit."""
    if value <= 0:
        return "0"
    step = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / step) * step:g}"
