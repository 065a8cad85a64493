"""Several users: their speeds and plan against closed forms, and intervals."""

import math
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from validation.decoding.methods.rows import COLOCATED, FLEXSPEC, OURS, SERVER, SQS, STREAM, U_HLM
from validation.planning.aims import aims_of
from validation.planning.option import Option, exact
from validation.planning.plan import Planner, load
from validation.planning.planners import planner_of_trace
from validation.planning.request import Request
from validation.planning.result import make
from validation.planning.rounds import COUNTS, count_table, named
from validation.planning.setting import Setting, constant_link
from validation.planning.shared import Shared, User, ahead_from, ahead_until
from validation.planning.token_time import _tokens, length_pays, wide_passes
from validation.planning.users import equal_users, plan_band

SETTING = Setting(constant_link(1e8, 0.3, 1e9), 0.012, 0.03)


@pytest.fixture(scope="module")
def planner(trace):
    return planner_of_trace(trace.path, SETTING, shared_seed=False)[0]


def option_of(planner, name: str):
    return next(each for each in planner.options if f"{each.family}, {each.label}" == name)


@pytest.mark.parametrize(("server_batch", "down_bps"), [(2, 1e7), (5, 2e4)])
def test_the_interval_of_users_is_that_of_prompts_drawn_again(planner, server_batch: int, down_bps: float) -> None:
    link = constant_link(4e4, 0.02, down_bps)
    setting = Setting(link, 0.012, 0.03, 1e-3, server_draft_s=0.005, server_batch=server_batch)
    shared = Shared([User(str(n), 2e5, 0.02, 0.012) for n in range(5)], setting, False, [np.full(5, 0.2)])
    test, rng = planner.split.test, np.random.default_rng(3)  # a prompt has one text
    draws = rng.choice(test, (60, len(test)))
    base, drawn = option_of(planner, f"{COLOCATED}, K = 2"), {}
    for name in (f"{COLOCATED}, K = 2", f"{FLEXSPEC}, K = 2", f"{U_HLM}, u ≤ 0.65", f"{SERVER}, one exchange a token"):
        option = option_of(planner, name)
        estimate = shared.estimate(option, planner.split)
        drawn[option] = again = np.array([shared.value(option, texts) for texts in draws])
        value, times = shared.value(option, test), shared.times(option, base)
        rest = (times, value / shared.value(base, test), again / drawn[base], 1.5e-3)  # of it few rounds are noise
        for found, whole, values, noise in ((estimate, value, again, 1e-6), rest):
            assert found.value == pytest.approx(whole, rel=1e-9)
            spread = np.diff(np.quantile(values, [0.025, 0.975]))[0]
            assert found.high - found.low == pytest.approx(spread, rel=0.35, abs=noise * found.value), name


ALONE = (f"{FLEXSPEC}, K = 2", f"{SERVER}, one exchange a token")
FULL = (f"{COLOCATED}, K = 2", f"{STREAM}, no round trips")


@pytest.mark.parametrize(("name", "batch"), [*((one, 1) for one in ALONE), *((one, 3) for one in FULL)])
def test_equal_users_take_turns_alone_or_in_full_passes(planner, name: str, batch: int) -> None:
    """The server has time for all, or is always busy; a sum of speeds counts weights, and a mean divides by them."""
    option, setting = option_of(planner, name), replace(SETTING, server_batch=batch, server_draft_s=0.005)
    users = [User(str(n), 9e8, 0.3, 0.012, n + 1.0) for n in range(9)]
    total = option.counts[planner.split.test].sum(axis=0)
    passes, drafts = (total[COUNTS.index(count)] for count in ("passes", "server_drafts"))
    speed = total[0] / max(float(setting.seconds(total, 1e8)), 9 / batch * (0.03 * passes + 0.005 * drafts))
    for fair, weight in ((False, 45), (True, 1)):
        shared = Shared(users, setting, fair, [np.full(9, 1 / 9)])
        assert shared.value(option, planner.split.test) == pytest.approx(weight * speed, rel=0.01)


@pytest.mark.parametrize("fair", [False, True])
def test_a_server_waits_for_company_only_where_users_gain_by_their_weights(planner, monkeypatch, fair: bool) -> None:
    """Here quick users gain if they wait for each other, and the slow one, whose weight is large, loses."""
    users = [User(name, 1e8, 0.1, *more) for name, *more in (("slow", 0.5, 1.0), ("a", 0.01, 0.01), ("b", 0.01, 0.01))]
    shared = Shared(users, replace(SETTING, verify_s=0.3, server_batch=3), fair, [np.full(3, 1 / 3)])
    option, test = option_of(planner, f"{FLEXSPEC}, K = 1"), planner.split.test
    value = shared.value(option, test)
    monkeypatch.setattr("validation.planning.shared.companies", lambda most: [1])
    assert value > 0.99 * shared.value(option, test)


def test_no_one_draft_length_is_better_for_equal_users_than_their_plan(planner) -> None:
    """The best length is not that of a full server: a pass for all takes 2 to 3 times as long as a pass for one."""
    setting = Setting(constant_link(1e8, 0.02, 1e9), 0.012, 0.2, 0.01, server_batch=8)
    _, shared, plan = plan_band(replace(planner, setting=setting), equal_users(8, setting), 8)
    (codec,) = {user["codec"] for user in plan["users"]}
    same = [one for one in planner.options if one.family == OURS and one.lossless and one.label.startswith(codec)]
    assert len(same) == 8
    assert plan["total_tokens_per_s"] > 0.98 * max(shared.value(one, planner.split.train) for one in same)


def test_a_user_with_more_weight_has_more_of_the_band(planner) -> None:
    fair = replace(planner, setting=replace(SETTING, link=constant_link(1e5, 0.02), objective="fair"))
    users = [User(str(weight), 1e5, 0.02, 0.012, weight) for weight in (1.0, 4.0)]
    small, large = (user["share"] for user in plan_band(fair, users, 1)[2]["users"])
    assert large > 2 * small


def test_drafts_pay_up_to_the_stated_times_of_a_wide_pass(planner) -> None:
    setting = replace(SETTING, server_draft_s=0.005, objective="capacity")
    draft = planner.candidates(COLOCATED, setting)[3]
    own, devices = map(float, re.findall(r"([\d.]+) times", *wide_passes(planner, setting)))
    chosen, full = length_pays(planner, setting, draft), make(replace(planner, setting=setting), Request())
    device, wide = full.asked.best.option, full.asked.best.option.draft_length
    assert device.row.device

    def dear(ratio: float) -> Planner:
        token_s = (ratio - 1.0) * setting.verify_s
        return replace(planner, setting=replace(setting, verify_s=setting.verify_s - token_s, verify_token_s=token_s))

    def taken(ratio: float, option: Option) -> float:
        return float(load(dear(ratio).setting, option.counts[planner.split.test].sum(axis=0)))

    def least(ratio: float, *kinds: str) -> float:
        return min(taken(ratio, dear(ratio).best([kind], dear(ratio).setting)) for kind in kinds)

    for less in (-0.04, 0.04):
        each = 1.0 + (chosen + less - 1.0) / draft.draft_length
        assert (taken(each, draft) < least(each, STREAM)) is (less < 0)
        assert (least(own + less, COLOCATED) < least(own + less, STREAM)) is (less < 0)
        full_token = 1.0 + (full.full_pays + less - 1.0) / wide
        assert (taken(full_token, device) < least(full_token, COLOCATED, STREAM, SERVER)) is (less < 0)
        servers = least(devices + less, COLOCATED, STREAM)
        assert (least(devices + less, FLEXSPEC, OURS, SQS) < servers) is (less < 0)


@pytest.mark.parametrize(("batch", "token_s", "rate"), [(1, 0.0, 1e8), (6, 2e-3, 1e8), (2, 0.0, 5e3)])
def test_devices_are_ahead_from_about_the_stated_users(planner, batch: int, token_s: float, rate) -> None:
    """Each has a quick link, or all share the rate of a slow one."""
    link, slow = constant_link(rate, 0.3, 1e9), rate < 1e6
    options = [one for one in planner.options if one.family in (COLOCATED, STREAM) or one.label == "K = 3"]
    setting = replace(SETTING, link=link, server_draft_s=0.02, verify_token_s=token_s, server_batch=batch)
    setting = replace(setting, objective="capacity")
    pool = Planner(options, setting, planner.split).pool(setting)
    users = equal_users(2, setting)
    texts = planner.split.test
    many = ahead_from(pool, texts, Shared(users, setting, False, []) if slow else None)
    assert many == ahead_from(pool, texts) or (slow and many > 1.2 * ahead_from(pool, texts))
    assert ahead_from(pool, texts, Shared([users[0], replace(users[1], draft_s=1.0)], setting, False, [])) is None
    for count in (math.floor(0.94 * many), math.ceil(1.06 * many)):
        shared = Shared(equal_users(count, setting), setting, False, [np.full(count, 1 / count if slow else 1.0)])
        assert answer(options, partial(shared.value, texts=planner.split.test)).row.device is (count > many)


def answer(options, value) -> Option:
    """Return the best option without loss, of devices what is sure: plans of them were up to 12% too fast."""
    return max(options, key=lambda one: one.lossless and value(one) / (1.12 if one.row.device else 1.0))


def test_devices_of_users_are_ahead_up_to_about_the_stated_time_of_a_token(planner) -> None:
    """In passes of one text, if the server drafts slowly, they are so up to a token as long as a pass."""
    setting = replace(SETTING, server_draft_s=0.005, server_batch=16)
    options = [one for one in planner.options if one.family in (COLOCATED, STREAM) or one.label in ("K = 1", "K = 3")]
    pool = Planner(options, setting, planner.split).pool(setting)
    shared = Shared(equal_users(150, setting), setting, False, [np.full(150, 1.0)])
    assert ahead_until(pool, replace(shared, setting=replace(setting, server_batch=1, server_draft_s=0.05))) is None
    for times in (0.8, 1.2):
        dear = replace(setting, verify_token_s=times * ahead_until(pool, shared))
        value = partial(replace(shared, setting=dear).value, texts=planner.split.test)
        assert answer(options, value).row.device is (times < 1)


def test_a_user_of_a_full_server_takes_part_in_passes_of_all_its_texts(planner) -> None:
    setting = replace(SETTING, server_draft_s=0.005, verify_token_s=3e-4, server_batch=16)
    for listed in aims_of(planner, setting).full_server.listed:
        n = named(listed.option.counts[planner.split.test].sum(axis=0))
        seconds = 0.012 * n["drafts"] + 0.005 * n["server_drafts"] + 0.3 * n["exchanges"] + 0.03 * n["passes"]
        seconds += 16 * 3e-4 * n["verified"] + n["up_bits"] / 1e8 + n["down_bits"] / 1e9
        assert listed.crowded == pytest.approx(n["tokens"] / seconds), listed.name


def test_an_option_saves_time_between_its_crossings_with_narrower_and_wider_ones():
    """Against a search over the times of a token; the counts are drawn, of one text each."""
    rng, places = np.random.default_rng(3), np.linspace(0.0, 6.0, 6001)[1:]
    whole = SimpleNamespace(split=SimpleNamespace(test=slice(None)))
    for _ in range(40):
        passes, wider, drafts = (rng.uniform(low, 1.0, 6) for low in (0.2, 0.0, 0.0))
        tables = [
            count_table(tokens=np.ones(1), passes=p, verified=p + w, server_drafts=d)
            for p, w, d in zip(passes, wider, drafts, strict=True)
        ]
        options = [exact(STREAM, "", table) for table in tables]
        found = _tokens(whole, SETTING, options[:3], options[3:])
        lines = SETTING.server_seconds(np.concatenate(tables)) + SETTING.verify_s * places[:, None] * wider
        quicker = lines[:, :3] < lines[:, 3:].min(axis=1, keepdims=True)
        last = np.where(quicker.any(axis=0), places[len(places) - 1 - quicker[::-1].argmax(axis=0)], 0.0)
        inside = (last < places[-1]) & (last > 0)
        assert found[inside] == pytest.approx(last[inside], abs=2e-3)
        never = found[last == 0]
        assert ((never <= 2e-3) | (never > places[-1])).all()  # or from beyond the search on
        assert (found[last == places[-1]] >= places[-1]).all()


def test_devices_that_many_users_make_slower_than_a_server_are_not_ahead(planner) -> None:
    """Ahead of two users: a server's passes of 8 texts carry more than 8 users of devices."""
    ones = np.ones(len(planner.split.prompt))
    device = count_table(tokens=3 * ones, drafts=3 * ones, passes=ones, exchanges=ones, verified=4 * ones)
    server = count_table(tokens=ones, drafts=0 * ones, passes=ones, exchanges=0 * ones, verified=ones)
    options = [exact(FLEXSPEC, "K = 3", device, 3), exact(STREAM, "", server, 0)]
    setting = replace(SETTING, link=constant_link(1e9, 0.2, 1e9), draft_s=0.6, verify_s=1.0, verify_token_s=0.3)
    setting = replace(setting, server_batch=8, objective="capacity")
    assert ahead_from(Planner(options, setting, planner.split).pool(setting), planner.split.test) is None
