"""A planned option as a policy that a device runs."""

import numpy as np

from hlmtheory import wire
from validation.decoding.methods.rows import CERTIFIED, DEVICE, OURS, STREAMED
from validation.planning.aims import PROVED, aims_of
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.positions import LATTICES
from validation.planning.profile import SEEDED
from validation.planning.rounds import COUNTS


def policy_of(
    option: Option, planner: Planner, vocabulary: int, mark: str | None, *, alone: bool = False
) -> wire.DevicePolicy:
    messages: wire.DraftProbabilities | wire.LatticeRows | wire.SeededTokens = wire.DraftProbabilities()
    if option.family == DEVICE:
        rule = wire.threshold_rule(1, 1.0)
    elif option.family == OURS:
        threshold = float(option.threshold) if np.isfinite(option.threshold) else None
        rule = wire.threshold_rule(int(option.draft_length), threshold)
        if option.codec == SEEDED:
            messages = wire.SeededTokens()
        elif option.codec:
            lattice = LATTICES[option.codec - 1]
            top_k = None if lattice.k is None else min(lattice.k, vocabulary)
            messages = wire.LatticeRows(lattice.resolution, top_k=top_k, threshold=lattice.threshold or 0.0)
    elif option.family == CERTIFIED:
        rule, messages = wire.threshold_rule(int(option.draft_length)), wire.CertifiedAnswers(option.answer_limit)
    elif option.family == STREAMED:
        rule, messages = wire.threshold_rule(1, None), wire.StreamedTokens()
    else:
        rule = wire.threshold_rule(0, None)
    setting = planner.setting
    promised: tuple[wire.Guarantee, ...]
    text = "total variation of a text"
    if option.lossless:
        promised = (wire.Guarantee(text, 0.0, PROVED, None),)
    elif option.family == CERTIFIED:
        length = int(option.counts[:, COUNTS.index("tokens")].max())
        promised = (
            wire.Guarantee("total variation of a token, given those before it", option.answer_limit, PROVED, None),
            wire.Guarantee(f"{text} of at most {length} tokens", float(option.loss.max()), PROVED, None),
        )
    else:
        name = f"mean {text}" if setting.risk_kind == "text" else "mean one-step risk of a token"
        promised = (wire.Guarantee(name, setting.risk_limit, "calibrated", planner.split.prompts["calibrate"]),)
    if setting.leak_bits is not None:
        promised = (*promised, wire.Guarantee("bits that the sizes of a round tell", option.leak_bits, PROVED, None))
    rival, rate, split = aims_of(planner, setting).asked.rival.option, setting.link.quantile(0.5), planner.split
    seconds = [setting.seconds(candidate.counts[split.test].sum(axis=0), rate) for candidate in (rival, option)]
    share = float(seconds[0] / seconds[1])
    name = f"speed over that of the strongest rival: {rival.family} {rival.label}".rstrip()
    faster = wire.Guarantee(name, share if np.isfinite(share) else 0.0, "measured", split.prompts["test"])
    line = wire.UncertaintyLine(1.0, 0.0) if rule.skips else None
    return wire.DevicePolicy(
        vocabulary,
        1.0,
        rule,
        messages,
        line,
        planned_for=mark,
        bonus=option.family != STREAMED,
        guarantees=(*promised, faster),
        alone=alone,
        message_sizes=option.sizes,
        block=option.block,
    )
