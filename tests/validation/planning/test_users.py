"""A file of users: what it may not say."""

from pathlib import Path

import numpy as np
import pytest

from validation.errors import UserError
from validation.planning.setting import PlanLink, Setting
from validation.planning.users import read_users


@pytest.mark.parametrize(
    ("line", "said"),
    [("a,0M,8ms,1", "rate is 0"), ("a,1M,0ms,1", "draft_time is 0"), ("a,1M,8ms,0", "above 0"), ("", "it has none")],
)
def test_what_no_user_has_is_refused(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "users.csv").write_text(f"name,rate,draft_time,weight\n{line}\n")
    with pytest.raises(UserError, match=said):
        read_users(tmp_path / "users.csv", Setting(PlanLink("mine", np.array([1e6]), 0.02, 1e6), 0.01, 0.03))
