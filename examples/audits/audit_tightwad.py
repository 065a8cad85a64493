"""tightwad: its rule, which gets the target's top token, and its proxy between two stand-ins of llama-server."""

import asyncio
import json
import math

import httpx
import torch
from tightwad.config import ProxyConfig, ServerEndpoint
from tightwad.proxy import SpeculativeProxy
from tightwad.speculation import DraftToken, TargetLogprob, verify_draft_tokens
from toy import DRAFT, DRAFTS, TARGET, V, drafted, rows, sampler

WORDS = "abc"


def draw(text):
    """Return the tokens of one round of ``verify_draft_tokens``."""
    drafts, q, p = drafted(text)
    known = [*(math.log(p[i, x]) for i, x in enumerate(drafts)), None]
    told = [TargetLogprob(int(row.argmax()), math.log(row.max()), own) for row, own in zip(p, known, strict=True)]
    done = verify_draft_tokens([DraftToken(x, math.log(q[i, x])) for i, x in enumerate(drafts)], told, temperature=1.0)
    return [one.token_id for one in (*done.accepted_tokens, done.resample_token, done.bonus_token) if one]


def server(model, alternatives):
    """Return a stand-in of llama-server that draws from a model."""

    def answer(request):
        asked, content = json.loads(request.content), []
        text = [WORDS.index(x) for x in asked["prompt"]]
        for _ in range(asked["max_tokens"]):
            (p,) = rows(model, text)
            text.append(int(torch.multinomial(p, 1)))
            told = [{"id": v, "token": WORDS[v], "logprob": math.log(p[v])} for v in range(V)]
            best = sorted(told, key=lambda one: -one["logprob"])[:alternatives]
            content.append({**told[text[-1]], "top_logprobs": best})
        said = {"text": "".join(one["token"] for one in content), "logprobs": {"content": content}}
        return httpx.Response(200, json={"choices": [said]})

    return httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(answer))


def proxy(alternatives):
    """Return a sampler of the whole proxy; its target names this number of alternatives to a token."""
    end = ServerEndpoint(url="http://server", model_name="toy", backend="llamacpp")
    made = SpeculativeProxy(ProxyConfig(draft=end, target=end, max_draft_tokens=DRAFTS))
    made.draft_client, made.target_client = server(DRAFT, 0), server(TARGET, alternatives)

    def draw(text):
        said = asyncio.run(made.speculation_round("".join(WORDS[x] for x in text), 1.0))[0]
        return [WORDS.index(x) for x in said]

    return sampler(draw)


sample, proxy_0, proxy_3 = sampler(draw), proxy(0), proxy(3)
CALLS = {
    "sample": ("verify_draft_tokens", {}),
    "proxy_0": ("SpeculativeProxy, no alternatives", {}),
    "proxy_3": ("SpeculativeProxy, 3 alternatives", {}),
}
