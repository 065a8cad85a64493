"""Several users: what a file of them may not say, and the interval of their speed."""

from pathlib import Path

import numpy as np
import pytest

from validation.decoding.methods.rows import COLOCATED, FLEXSPEC, SERVER, U_HLM
from validation.errors import UserError
from validation.planning.measure import planner_of_trace
from validation.planning.setting import PlanLink, Setting, constant_link
from validation.planning.shared import Shared, User
from validation.planning.users import read_users


@pytest.mark.parametrize(
    ("line", "said"),
    [("a,0M,8ms,1", "rate is 0"), ("a,1M,0ms,1", "draft_time is 0"), ("a,1M,8ms,0", "above 0"), ("", "it has none")],
)
def test_what_no_user_has_is_refused(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "users.csv").write_text(f"name,rate,draft_time,weight\n{line}\n")
    with pytest.raises(UserError, match=said):
        read_users(tmp_path / "users.csv", Setting(PlanLink("mine", np.array([1e6]), 0.02, 1e6), 0.01, 0.03))


@pytest.mark.parametrize(("server_batch", "down_bps"), [(2, 1e7), (5, 2e4)])
def test_the_interval_of_users_is_that_of_prompts_drawn_again(trace, server_batch: int, down_bps: float) -> None:
    link = constant_link(4e4, 0.02, down_bps)
    setting = Setting(link, 0.012, 0.03, 1e-3, server_draft_s=0.005, server_batch=server_batch)
    planner = planner_of_trace(trace.path, setting, shared_seed=False)[0]
    shared = Shared([User(str(n), 2e5, 0.02, 0.012) for n in range(5)], setting, False, [np.full(5, 0.2)])
    test, rng = planner.split.test, np.random.default_rng(3)
    assert len(np.unique(planner.split.prompt[test])) == len(test)  # a prompt has one text
    draws = rng.choice(test, (60, len(test)))
    for name in (f"{COLOCATED}, K = 2", f"{FLEXSPEC}, K = 2", f"{U_HLM}, u ≤ 0.65", f"{SERVER}, one exchange a token"):
        option = next(each for each in planner.options if f"{each.family}, {each.label}" == name)
        estimate = shared.estimate(option, planner.split)
        again = np.array([shared.value(option, texts) for texts in draws])
        assert estimate.value == pytest.approx(shared.value(option, test), rel=1e-9)
        spread = np.diff(np.quantile(again, [0.025, 0.975]))[0]
        assert estimate.high - estimate.low == pytest.approx(spread, rel=0.35, abs=1e-6 * estimate.value), name
