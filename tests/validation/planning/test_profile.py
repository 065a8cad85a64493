"""The profile of a trace, against the functions of the theory on whole rows."""

from dataclasses import replace

import numpy as np
import pytest

from hlmtheory.lattice import quantize, top_support
from hlmtheory.shared_seed import match_probability
from hlmtheory.uncertainty.perturbation import vocabulary_uncertainty
from hlmtheory.verification import acceptance_rate
from hlmtheory.wire import DevicePolicy, DraftProbabilities, LatticeRows, SeededTokens, threshold_rule
from tests.validation.stored_traces import LENGTH, VOCABULARY, stored
from validation.collection.import_logits import import_logits
from validation.collection.processing import Processing
from validation.decoding.methods.rows import OURS
from validation.planning.deploy import policy_of
from validation.planning.message_length import message_bits
from validation.planning.option import fitted_line
from validation.planning.planners import planner_of_trace
from validation.planning.positions import LATTICES, THRESHOLDS, positions_of, race_matches
from validation.planning.profile import ADAPTIVE, CODECS, SEEDED, profile_of
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link
from validation.planning.truncated import messages
from validation.trace.reader import TraceChunk, probabilities


def rows(trace, text):
    part = slice(text * LENGTH, (text + 1) * LENGTH)
    logits = np.asarray(trace.arrays["draft_logits"][part])
    q, p = probabilities(logits), probabilities(trace.arrays["target_logits"][part])
    return q, p, vocabulary_uncertainty(logits.astype(np.float64)), np.asarray(trace.arrays["tokens"][part])


@pytest.mark.parametrize("number", [n for n, one in enumerate(LATTICES) if one.k is not None])
def test_quantised_rows_are_those_of_whole_rows(trace, profile, number):
    lattice, text = LATTICES[number], 3
    q, p, _, _ = rows(trace, text)
    k = min(lattice.k, VOCABULARY)
    row = quantize(q, support=top_support(q, np.full(LENGTH, k)), resolution=lattice.resolution) / lattice.resolution
    assert profile.acceptance[text, number + 1] == pytest.approx(np.mean(acceptance_rate(p, row)), abs=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3, 8])
@pytest.mark.parametrize("codec", range(len(CODECS)))
def test_messages_are_as_long_as_those_of_the_device(trace, codec, most):
    messages = SeededTokens() if codec == SEEDED else DraftProbabilities()
    if 0 < codec < SEEDED:
        lattice = LATTICES[codec - 1]
        kept = {"threshold": lattice.threshold} if lattice.k is None else {"top_k": min(lattice.k, VOCABULARY)}
        messages = LatticeRows(lattice.resolution, **kept)
    policy = DevicePolicy(VOCABULARY, 1.0, threshold_rule(most), messages)
    rng = np.random.default_rng(codec)
    for text in (0, 3, 11):
        part = slice(text * LENGTH, (text + 1) * LENGTH)
        chunk = TraceChunk(**{name: np.array(array[part]) for name, array in trace.arrays.items()})
        sizes = positions_of(chunk, rng.random(LENGTH)).sizes[:, :, None]
        counted = message_bits(sizes, np.array([LENGTH]), most, VOCABULARY)[:, codec, 0]
        drafts = [policy.draft(row, rng=rng, seed=text, position=t) for t, row in enumerate(chunk.draft_logits)]
        real = [8 * len(policy.message(drafts[t : t + most])) for t in range(LENGTH)]
        np.testing.assert_allclose(counted, real, atol=8)  # a byte of the sum of logarithms
        assert np.mean(counted == real) > 0.9


def test_rounds_by_block_along_a_text(trace, profile):
    """Two drafts a round: kept with min(1, R_1) and min(1, R_1, R_2), whatever the second ratio alone."""
    column, text = COUNTS.index("exchanges"), 5
    q, p, _, token = rows(trace, text)
    ratio = q[np.arange(LENGTH), token] / p[np.arange(LENGTH), token]
    start = np.zeros(LENGTH + 4)
    start[0] = 1.0
    for t in range(LENGTH):
        first = min(1.0, ratio[t])
        both = min(first, ratio[t] * ratio[t + 1]) if t + 1 < LENGTH else 0.0
        start[t + 1 : t + 4] += start[t] * np.array([1 - first, first - both, both])
    assert profile.blocks[1, 0, text, column] == pytest.approx(start[:LENGTH].sum(), rel=1e-12)
    one_by_one = profile.planned[:, 0, :-1, :, column].sum(axis=-1)
    assert (profile.blocks[..., column].sum(axis=-1) <= one_by_one * (1 + 1e-12)).all()


def test_a_plan_by_block_is_a_policy_by_block(tmp_path):
    stored(tmp_path / "trace", noise=0.5)
    setting = Setting(constant_link(1e5, 0.2), 0.012, 0.030)
    made = planner_of_trace(tmp_path / "trace", setting, shared_seed=False, block=True)[0]
    made = replace(made, options=[one for one in made.options if one.codec != 0])  # with distributions up
    option = made.ours(setting)
    assert (option.block, option.lossless) == (True, True)
    plain = [one for one in made.options if one.family == OURS and one.lossless and not one.block]
    assert made.value_of(option, setting) > max(made.value_of(one, setting) for one in plain)
    assert policy_of(option, made, VOCABULARY, None).block


def test_a_plan_of_imported_rows_names_their_temperature(tmp_path):
    rng = np.random.default_rng(1)
    for name in ("draft", "target"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(40, VOCABULARY)))
    warm = Processing("processed_logits", temperature=0.7)
    files = (tmp_path / f"{name}.npy" for name in ("draft", "target"))
    import_logits(*files, tmp_path / "trace", processing=(warm, warm))
    _, about = planner_of_trace(tmp_path / "trace", Setting(constant_link(1e5, 0.2), 0.012, 0.030))
    assert about["evidence"]["rows"].endswith("temperature=0.7")


def races(p, q, count, seed=0):
    times = np.random.default_rng(seed).exponential(size=(count, len(q)))
    with np.errstate(divide="ignore"):
        return (times / q).argmin(axis=1), (times / p).argmin(axis=1)


@pytest.mark.parametrize("case", range(6))
def test_the_draft_given_the_server_s_token_is_that_of_simulated_races(case):
    p, q = np.random.default_rng(case).dirichlet([0.6] * 5, size=2)
    if case == 1:  # a token that the device never draws
        q[0] = 0.0
    if case == 2:  # one that the server never emits, and one that neither draws
        p[1] = p[2] = q[2] = 0.0
    if case == 3:
        q = p.copy()
    if case == 4:
        p = np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    p, q = p / p.sum(), q / q.sum()
    drafted, emitted = races(p, q, 300_000)
    for token in range(5):
        matched, given = race_matches(p[None], q[None], np.array([token]))
        assert matched.sum() == pytest.approx(float(match_probability(p, q)), abs=1e-12)
        assert matched[0, token] == pytest.approx(np.mean((drafted == token) & (emitted == token)), abs=0.005)
        own = emitted == token
        if p[token] == 0:
            assert not given.any()
            continue
        assert given.sum() == pytest.approx(1.0, abs=1e-12)
        shares = np.bincount(drafted[own], minlength=5) / own.sum()
        np.testing.assert_allclose(given[0], shares, atol=4 * 0.5 / np.sqrt(own.sum()))


def test_rounds_of_a_shared_seed_along_a_text_are_those_of_played_races(trace, profile):
    """Races in which the text's token wins: its time is exponential, and the others' numbers have no memory."""
    q, p, _, token = rows(trace, 5)
    most, played, rounds, rng = 3, 4000, [], np.random.default_rng(3)
    numbers = rng.exponential(size=(LENGTH, played, VOCABULARY))
    won = np.arange(LENGTH)[:, None], np.arange(played), token[:, None]
    first = numbers[won].copy()
    numbers += p[:, None] * first[..., None]
    numbers[won] = p[np.arange(LENGTH), token][:, None] * first
    good = (numbers / q[:, None]).argmin(axis=-1) == token[:, None]
    for coins in good.T:
        place = count = 0
        while place < LENGTH:
            drafts, count = min(most, LENGTH - place), count + 1
            accepted = next((j for j in range(drafts) if not coins[place + j]), drafts)
            place += accepted + 1
        rounds.append(count)
    expected = profile.planned[most - 1, 0, SEEDED, 5, COUNTS.index("exchanges")]
    assert abs(np.mean(rounds) - expected) < 4 * np.std(rounds) / np.sqrt(played)


@pytest.mark.parametrize("text", [0, 7])
def test_losses_of_kept_drafts_of_a_shared_seed(trace, profile, text):
    """The law of a position with kept drafts, token by token: Σ over all pairs of winners."""
    q, p, u, token = rows(trace, text)
    for column, threshold in enumerate(THRESHOLDS):
        factors, risks = [], []
        for position in range(LENGTH):
            kept = u[position] <= threshold
            each = (race_matches(p[None, position], q[None, position], np.array([v]))[1][0] for v in range(VOCABULARY))
            joint = np.stack(list(each), axis=1) * p[position]  # P(a = row, b = column)
            law = np.where(kept, q[position], 0.0) + joint[~kept].sum(axis=0)
            assert law.sum() == pytest.approx(1.0, abs=1e-9)
            factors.append(min(1.0, law[token[position]] / p[position, token[position]]))
            risks.append(0.5 * np.abs(law - p[position]).sum())
        assert profile.overlap[text, SEEDED, column] == pytest.approx(1.0 - np.prod(factors), abs=1e-9)
        assert profile.risk[text, SEEDED, column] >= np.mean(risks) - 1e-12
        assert profile.risk[text, SEEDED, column] >= profile.risk[text, 0, column] - 1e-12


def test_a_round_whose_first_draft_exceeds_its_bits_has_one_draft(trace, monkeypatch):
    monkeypatch.setattr("validation.planning.profile.BUDGETS", (0.0,))
    found = profile_of(trace)
    np.testing.assert_array_equal(found.budgeted[:, 0], found.quantised[0, list(ADAPTIVE)])


def test_a_long_trace_is_profiled_at_evenly_spaced_texts(trace, profile, monkeypatch):
    monkeypatch.setattr("validation.planning.profile.MOST_TEXTS", 15)
    found = profile_of(trace)
    chosen = found.prompts.astype(int)
    assert chosen.tolist() == list(range(0, profile.texts, 3))
    np.testing.assert_array_equal(found.planned, profile.planned[:, :, :, chosen])


def test_a_profile_goes_on_where_it_was_stopped_is_kept_and_recognised(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr("tests.validation.stored_traces.TEXTS", 6)
    trace, another = (stored(tmp_path_factory.mktemp("few") / "trace", seed=seed) for seed in (1, 2))
    profile = profile_of(trace)
    monkeypatch.setattr("validation.planning.profile._GROUP", 2)
    file, calls = tmp_path / "profile.npz", []

    def report(*what):
        calls.append(what)
        if len(calls) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_of(trace, file, report)
    profile_of(trace, file, report)
    assert f"{profile.lengths[:2].sum()} were measured before" in calls[4][2]
    assert list(tmp_path.iterdir()) == [file]
    calls.clear()
    again = profile_of(trace, file, lambda *what: calls.append(what))
    assert not calls
    for name, value in vars(profile).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    file.write_bytes(file.read_bytes()[:1000])  # damaged: measured anew
    profile_of(trace, file, lambda *what: calls.append(what))
    assert calls[-1][:2] == (trace.positions, trace.positions)
    calls.clear()
    other = profile_of(another, file, lambda *what: calls.append(what))
    assert calls  # another trace
    for one, of, bias in ((trace, profile, 0.05), (another, other, 0.05), (another, other, 0.1)):
        line = fitted_line(of, np.arange(of.texts))
        kept, anew = (messages(one, line, bias, place) for place in (tmp_path / "messages.json", None))
        assert str(kept) == str(anew)
