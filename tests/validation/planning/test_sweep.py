"""Drawn settings: no option that keeps the limits beats the plan in its aim, and no sentence contradicts it.

150 settings of each of two pairs, and 30 with N users; with DEEP=1 666 of each of three pairs, and 400.

The check computes times, limits and the best options by itself, from the counts of the options alone. For every other
setting all prompts are in all parts of the split, so that the plan must be the best of all options. Otherwise an option
is chosen on other prompts than those whose numbers are printed, and the plan must be the best of all printed rows.
"""

import os
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.channel import Rayleigh
from tests.validation.stored_traces import stored
from validation.collection.collect import collect
from validation.collection.prompts import builtin_prompts
from validation.decoding.methods import rows
from validation.errors import UserError
from validation.models.pair import load_pair
from validation.planning import shared
from validation.planning.aims import aims_of
from validation.planning.answer import plainest, rival_said, with_length
from validation.planning.menu import Evidence, colocated_options
from validation.planning.plan import Planner
from validation.planning.planners import planner_of_trace
from validation.planning.profile import SEEDED, profile_of
from validation.planning.request import Request
from validation.planning.result import make
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, fading_link
from validation.planning.shared import Shared, User
from validation.planning.split import Split
from validation.trace.reader import open_trace

SETTINGS, WITH_USERS, PAIRS = (2_000, 400, 3) if os.environ.get("DEEP") == "1" else (300, 30, 2)
EVERY = 12  # settings: a whole plan is made for one of them
NUMBER = r"([\d,.]+(?:e[+-]?\d+)?)"
C = {name: column for column, name in enumerate(COUNTS)}


def builtin(path: Path) -> None:
    pair = load_pair("builtin", device="cpu")
    collect(pair, builtin_prompts(limit=40), path, positions=40 * 8, new_tokens=8, batch=40)


MADE = (lambda path: stored(path, noise=0.35, seed=1), lambda path: stored(path, noise=0.9, seed=2), builtin)
"""Make a trace: of random rows with a good draft and a poor one, and, with DEEP=1, of real models."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Return the counts of planners for each pair, when first asked for.

    They are split; with all prompts in all parts; and so with servers that draw drafts from other rows than q.
    """

    @cache
    def planners(pair: int) -> list[Counted]:
        path = tmp_path_factory.mktemp("pair")
        MADE[pair](path / "trace")
        setting = Setting(constant_link(1e6, 0.02), 0.012, 0.03, verify_token_s=1e-4)  # with trees
        full, _ = planner_of_trace(path / "trace", setting, cache=path)
        evidence = Evidence(profile_of(open_trace(path / "trace"), path / "profile.npz"))

        def listed(one):
            return one.draft_length <= 1 or not np.isfinite(one.threshold) or round(20 * one.threshold) % 4 == 0

        servers = colocated_options(evidence, range(1, SEEDED))
        usual, more = ([*filter(listed, each)] for each in (full.options, servers))
        texts = np.arange(len(full.split.prompt))
        whole = Split(texts, full.split.calibrate, texts, enough=True, prompt=full.split.prompt)
        made = ((usual, full.split), (usual, whole), (usual + more, whole))
        return [Counted(Planner(own, setting, split, full.line, full.model, full.streamed)) for own, split in made]

    return planners


def drawn(rng) -> Setting:
    rate, trip = 10 ** rng.uniform(4, 9), float(rng.choice([0.0, 10 ** rng.uniform(-3, 0)]))
    down = [None, 10 ** rng.uniform(4, 9)][rng.integers(2)]
    link = constant_link(rate, trip, down)
    if rng.random() < 0.1:
        link = fading_link(rate, Rayleigh(10.0), 10.0, trip, down)
        link = replace(link, rates=link.rates[::20])
    draft, verify = (float(np.round(10 ** rng.uniform(-3, -1), 3)) for _ in range(2))
    setting = Setting(link, draft, verify, server_draft_s=draft * float(rng.choice([0.2, 1.0, 3.0])))
    changed: dict[str, object] = {"server_batch": int(rng.choice([1, 1, 4, 16]))}
    if rng.random() < 0.4:
        changed["verify_token_s"] = 10 ** rng.uniform(-5, -2.5)
    if rng.random() < 0.2:
        changed["between_s"] = 10 ** rng.uniform(-4, -2)
    if rng.random() < 0.5:
        limit = float(rng.choice([1.0, rng.uniform(0.02, 0.9)]))
        changed |= {"risk_kind": str(rng.choice(["text", "token"])), "risk_limit": limit}
    if rng.random() < 0.25:
        changed |= {"latency_s": (draft + verify + trip) * rng.uniform(0.6, 4), "latency_share": 0.9}
    if rng.random() < 0.2:
        changed["energy_j"] = 10 ** rng.uniform(-2.5, 0)
    kinds = ["throughput", "throughput", "capacity", "cost", *(["goodput"] if "latency_s" in changed else [])]
    return replace(setting, **changed, objective=str(rng.choice(kinds)))


def kind_of(option) -> tuple[object, ...]:
    if option.family in (rows.U_HLM, rows.CU_HLM):
        return option.family, option.label.split("u ≤")[0]
    return (option.family, option.codec) if option.draft_length == 1 else ()


class Counted:
    """A planner, and what no setting changes: its options' counts by part, and the least limit that allows each."""

    def __init__(self, planner: Planner) -> None:
        self.planner, self.options, self.split = planner, planner.options, planner.split
        self.parts = self.totals(self.options)
        self.kin = defaultdict(list)
        for option in self.options:
            self.kin[kind_of(option)].append(option)
        self.least = cache(self._least)

    def totals(self, options):
        """Return the counts of options on the training texts and on the test texts, (options, counts) each."""
        parts = (self.split.train, self.split.test)
        return [np.stack([option.counts[part].sum(axis=0) for option in options]) for part in parts]

    def _least(self, number, kind):
        """Return the corrected mean of the calibration prompts, at all thresholds up to the option's."""
        option, name = self.options[number], "loss" if kind == "text" else "token_loss"
        if option.family == rows.CERTIFIED:
            return getattr(option, name).max()
        top = 1.0 if option.family == rows.DEVICE else option.threshold
        kin = kind_of(option) if option.family in (rows.U_HLM, rows.CU_HLM) else (rows.OURS, option.codec or 0)
        up_to = [other for other in self.kin[kin] if -np.inf < other.threshold <= top + 1e-9]
        worst = np.max([np.minimum(getattr(other, name)[self.split.calibrate], 1.0) for other in up_to], axis=0)
        return (worst.sum() + 1.0) / (len(worst) + 1.0)


class Oracle:
    """Times, limits and values of all options on the test texts, written anew."""

    def __init__(self, counted: Counted, setting: Setting) -> None:
        self.counted, self.s, self.options, parts = counted, setting, [*counted.options], counted.parts
        streamed = None if setting.objective in ("cost", "goodput") else counted.planner.streamed
        if streamed and (drawn_on := streamed.option(replace(setting, objective="throughput"))):
            self.options.append(drawn_on)
            parts = [np.vstack(both) for both in zip(parts, counted.totals([drawn_on]), strict=True)]
        self.fit, self.n = (part / part[:, :1] for part in parts)
        self.device = np.array([option.row.device for option in self.options])
        self.lossless = np.array([not option.loss.any() and option.threshold == -np.inf for option in self.options])
        trees = np.array(["tree" in option.family for option in self.options])
        self.kept = self._kept() & (~trees | (setting.verify_token_s > 0))  # else the widest tree costs one draft

    def seconds(self, n, rate):
        s, total = self.s, np.zeros(len(n))
        total += n[:, C["drafts"]] * s.draft_s + n[:, C["exchanges"]] * s.link.round_trip_s
        total += self.server(n, 1) + n[:, C["up_bits"]] / rate + n[:, C["down_bits"]] / s.link.down_bps
        return total

    def server(self, n, batch):
        s = self.s
        alone = n[:, C["passes"]] * s.verify_s + n[:, C["server_drafts"]] * s.server_draft_s
        alone += (n[:, C["passes"]] - n[:, C["exchanges"]]) * s.between_s
        return alone / batch + n[:, C["verified"]] * s.verify_token_s

    def round_s(self, n, rate):
        passes = n[:, C["passes"]]
        whole = (self.seconds(n, rate) - n[:, C["skipped"]] * self.s.draft_s) / np.where(passes > 1e-9, passes, 1.0)
        return np.where(passes > 1e-9, whole, self.s.draft_s)

    def value(self, name):
        s, rates = self.s, self.s.link.rates
        if name == "a full server":
            return 1.0 / np.maximum(self.server(self.n, s.server_batch), 1e-12)
        speeds = np.stack([1.0 / self.seconds(self.n, rate) for rate in rates])
        if s.objective == "cost":
            return 1.0 / (s.server_price * self.server(self.n, 1) + s.time_price * np.mean(1.0 / speeds, axis=0))
        if s.objective == "goodput":
            speeds = speeds * np.stack([self.round_s(self.n, rate) <= s.latency_s for rate in rates])
        return speeds.mean(axis=0)

    def _kept(self):
        s, n = self.s, self.fit
        kept = self.lossless.copy()
        if s.risk_limit > 0:
            kept = np.array([safe or self._small_loss(number) for number, safe in enumerate(self.lossless)])
        if s.latency_s is not None:
            kept &= self.round_s(n, s.link.quantile(s.latency_share)) <= s.latency_s
        if s.energy_j is not None:
            sending = n[:, C["up_bits"]] / s.link.quantile(0.5) * s.transmit_w
            kept &= n[:, C["drafts"]] * s.draft_s * s.device_w + sending <= s.energy_j
        return kept

    def _small_loss(self, number):
        return self.s.risk_limit >= 1 or self.counted.least(number, self.s.risk_kind) <= self.s.risk_limit

    def places(self):
        """Return the number of each option by its name in a plan."""
        places = {f"{option.family}, {option.label}".removesuffix(", "): n for n, option in enumerate(self.options)}
        assert len(places) == len(self.options)
        return places


lossless = attrgetter("option.lossless")


def best_value(values, exact, device, greedy) -> float:
    """Return the largest value, but that of an option without loss if it is at most 5% less; and then that of one
    without a device if it is less by no more than plans of devices erred; and then again without loss."""
    place = values.argmax()
    for may_lose, may_have_device in ((False, True), (True, False), (False, True)):
        kind = exact | (may_lose and not exact[place])
        kind &= ~device | (may_have_device and device[place])
        simpler = np.where(kind, values, -1.0).argmax()
        much = 1.05 if may_have_device else 1.18 if greedy[place] else 1.12
        if kind.any() and values[simpler] * much >= values[place]:
            place = simpler
    return values[place]


def near(text: str, value: float) -> bool:
    return abs(float(text) - value) <= 0.0051 * value + 1e-12


def check(counted: Counted, setting: Setting, *, whole: bool, aims, asked, binds: str) -> None:
    oracle = Oracle(counted, setting)
    places = oracle.places()
    for aim in (aims.one_user, aims.full_server):
        values = oracle.value(aim.name)
        numbers, best = [places[row.name] for row in aim.listed], places[aim.best.name]
        for row, number in zip(aim.listed, numbers, strict=True):
            assert bool(row.breaks) is not bool(oracle.kept[number]), (row.name, row.breaks, setting)
            assert row.value == pytest.approx(values[number], rel=1e-9), (row.name, setting)
        assert oracle.kept[best], (aim.best.name, setting)
        allowed = oracle.kept.copy()
        if not whole:
            allowed[:] = False
            allowed[[n for n in numbers if oracle.kept[n]]] = True
        if setting.risk_limit <= 0:
            allowed &= oracle.lossless
        allowed &= np.array([option.family not in rows.UNRUN for option in oracle.options])
        greedy = np.array([option.family == rows.GREEDY for option in oracle.options])
        wanted = best_value(*(each[allowed] for each in (values, oracle.lossless, oracle.device, greedy)))
        assert values[best] == pytest.approx(wanted, rel=2e-9), (aim.name, aim.best.name, setting)
        assert any(row.option is aim.best.option for row in aim.rows)
        assert aim.best.family not in rows.UNRUN
        for device in (True, False):
            row = aim.best_of(lambda one, device=device: one.option.row.device is device)
            most = values[allowed & (oracle.device == device)].max(initial=0.0)
            assert (row.value if row else 0.0) == pytest.approx(most, rel=2e-9), (aim.name, setting)
        exact = aim.best_of(lambda one: one.option.lossless)
        most = values[allowed & oracle.lossless].max(initial=0.0)
        assert (exact.value if exact else 0.0) == pytest.approx(most, rel=2e-9), (aim.name, setting)
        if aim is asked:
            check_rival(oracle, values, allowed, best, aim)
    loose = re.search(r"a looser (--\w+)", binds)
    assert asked is aims.asked
    if loose and whole and asked is aims.one_user:
        free = {"--risk": {"risk_limit": 1.0}, "--latency": {"latency_s": None}, "--energy": {"energy_j": None}}
        if not (setting.objective == "goodput" and loose[1] == "--latency"):
            other = Oracle(counted, replace(setting, **free[loose[1]]))
            assert other.value("one user")[other.kept].max() > asked.best.value


def check_rival(oracle: "Oracle", values, allowed, best: int, aim) -> None:
    """Compare the numbers of the line on the strongest rival with those of the best other policies."""
    said, (name, tied) = rival_said(aim), plainest(aim, aim.best)
    same = [row for row in aim.rows if with_length(row) == name] if tied else [aim.best]
    assert all(near(f"{row.value:.6g}", aim.best.value) for row in same), name
    assert {row.option.lossless for row in same} == {aim.best.option.lossless}
    families = np.array([option.family for option in oracle.options])
    ours = np.isin(families, [rows.OURS, rows.STREAMED, rows.CERTIFIED])
    other_kind = oracle.device != oracle.device[best]
    other = ~np.isin(families, rows.OWN_DRAFTS if aim.best.family in rows.OWN_DRAFTS else aim.best.family)
    pools = [allowed & ~ours] if said.startswith("Strongest rival within") else [allowed & other_kind]
    if said.startswith("Strongest rival of another kind: "):
        pools.insert(0, allowed & ~oracle.device & other)
    lossy = not aim.best.option.lossless
    if "with a device, without loss" in said:
        pools[-1] = pools[-1] & oracle.lossless
    rivals = len(pools)
    if "; without loss" in said:
        pools.append(allowed & oracle.lossless & (other_kind | lossy))
    numbers = [values[pool].max(initial=0.0) for pool in pools]
    if said.startswith("Strongest rival"):  # of all policies but the answer's, and but ours if the answer is ours
        every = allowed & other & ~(ours & ours[best])
        assert values[every].max(initial=0.0) == max(numbers[:rivals]), (said, oracle.s)
    unit = "tokens/s" if aim.setting.objective in ("throughput", "goodput") else "(?:ms of the server )?for a token"
    heard = [float(x.replace(",", "")) for x in re.findall(rf"{NUMBER} {unit}", said)]
    scale = 1e3 if aim.name == "a full server" else 1.0
    inverse = aim.setting.objective in ("cost", "capacity")
    shown = [scale / x if inverse else x for x in numbers if x > 0]
    if "no time of the server" not in said:
        assert len(heard) == len(shown), (said, shown, oracle.s)
        assert all(near(str(x), y) for x, y in zip(heard, shown, strict=True)), (said, shown, oracle.s)
    assert (": none" in said) is (0.0 in numbers), (said, numbers)
    exact = values[allowed & oracle.lossless].max(initial=0.0)
    assert not lossy or not exact or min(abs(x - exact) for x in numbers) <= 0.0051 * exact, (said, exact, oracle.s)
    assert not lossy or "lossless)" in said or "without loss" in said, said
    assert "(not lossless)" not in said or "without loss" in said or "Strongest rival of another kind: " in said, said


@pytest.mark.parametrize("pair", range(PAIRS))
def test_no_listed_row_beats_the_plan_and_no_sentence_contradicts_the_rows(pairs, pair):
    rng = np.random.default_rng(30 + pair)
    families, refused, gains = set(), 0, []
    for number in range(SETTINGS // PAIRS):
        whole = bool(number % 2)
        counted, setting = pairs(pair)[whole], drawn(rng)
        planner = replace(counted.planner, setting=setting)
        try:
            aims = aims_of(planner, setting)
        except UserError:
            oracle, refused = Oracle(counted, setting), refused + 1
            assert not (oracle.kept & (oracle.lossless | (setting.risk_limit > 0))).any(), setting
            continue
        asked = aims.full_server if setting.objective == "capacity" else aims.one_user
        binds = planner.binding(asked.best.option)
        check(counted, setting, whole=whole, aims=aims, asked=asked, binds=binds)
        families.add(asked.best.family)
        if number % EVERY == 0:
            plan = make(planner, Request())
            notes = " ".join([*plan.answer, *plan.notes, *plan.bounds])
            for row, listed in zip(plan.rows, asked.rows, strict=True):  # the printed numbers
                assert row.decides.value == pytest.approx(asked.number(listed), rel=1e-12)
                speed = np.mean(setting.speeds(listed.option.counts[planner.split.test].sum(axis=0)))
                assert row.tokens_per_s_mean.value == pytest.approx(speed, rel=1e-9)
            assert ("Risk: not used" in notes) <= asked.best.option.lossless
            quick = setting.server_draft_s <= setting.draft_s and setting.between_s <= setting.link.round_trip_s
            assert ("The server is no slower at a draft" in notes) is quick
            if said := re.search(r"makes the plan faster by ([-\d.]+)%", notes):
                gains.append(100 * (asked.best.value / asked.best_of(lossless).value - 1))
                assert abs(float(said[1]) - gains[-1]) < 0.06
    assert gains
    assert len(families) >= 6, families
    assert refused < SETTINGS / 10


def test_no_device_that_waits_in_turn_beats_a_server_that_drafts_as_fast(pairs):
    """What the note on the server's own draft says, over all options on a fast downlink."""
    rng = np.random.default_rng(32)
    for number in range(SETTINGS // 2):
        counted, setting = pairs(number % PAIRS)[2], drawn(rng)
        link = replace(setting.link, down_bps=1e15)
        setting = replace(setting, link=link, server_draft_s=setting.draft_s, objective="throughput")
        setting = replace(setting, between_s=min(setting.between_s, link.round_trip_s))
        oracle = Oracle(counted, replace(setting, latency_s=None, energy_j=None))
        values = np.where(oracle.kept, oracle.value("one user"), 0.0)
        families = np.array([option.family for option in oracle.options])
        servers = values[
            np.isin(families, [rows.COLOCATED, rows.OWN_GREEDY, rows.KEEPING, "server alone, streaming"])
        ].max()
        assert values[np.isin(families, [rows.OURS, rows.CERTIFIED])].max() <= servers * (1 + 1e-6), setting
        exact = np.where(oracle.lossless, values, 0.0)
        in_turn = np.array(["tree" not in family and family != rows.STREAMED for family in families])
        assert exact[in_turn & oracle.device].max() <= servers * (1 + 1e-6), setting


def test_no_row_beats_the_plan_for_several_users(pairs, monkeypatch):
    monkeypatch.setattr(shared, "MOST_ROUNDS", 400)
    monkeypatch.setattr(shared, "SCREENED", 200)
    monkeypatch.setattr(shared, "EACH", (20, 40))
    rng = np.random.default_rng(33)
    families = set()
    for number in range(WITH_USERS):
        many = int(rng.integers(2, 7))
        setting = replace(drawn(rng), server_batch=int(rng.integers(1, 5)), objective="throughput", latency_s=None)
        counted = pairs(number % PAIRS)[0]
        planner = Planner(counted.options, setting, counted.split)
        rate = setting.link.quantile(0.5)
        share = replace(setting, link=constant_link(rate / many, setting.link.round_trip_s, setting.link.down_bps))
        users = [User(str(n), rate, setting.link.round_trip_s, setting.draft_s) for n in range(many)]
        aim = aims_of(planner, setting, Shared(users, share, False, [np.full(many, 1 / many)])).together
        assert aim.name == f"{many} users"
        kept = [row for row in aim.listed if not row.breaks and row.family not in rows.UNRUN]
        read = (attrgetter("value"), lossless, attrgetter("option.row.device"), lambda row: row.family == rows.GREEDY)
        wanted = best_value(*(np.array([f(row) for row in kept]) for f in read))
        assert aim.best.value == pytest.approx(wanted, rel=2e-9)
        oracle = Oracle(counted, share)
        alone, places = many * oracle.value("one user"), oracle.places()
        for row in kept:  # but for the noise of few simulated rounds, none beats users who never wait or full passes
            n = places[row.name]
            full = 1.0 / max(oracle.server(oracle.n, min(setting.server_batch, many))[n], 1e-12)
            assert row.value <= min(alone[n], full) * 1.06, (row.name, setting)
            assert row.value >= 0.3 * min(alone[n], full), (row.name, setting)
        families.add(aim.best.family)
    assert len(families) > 1
