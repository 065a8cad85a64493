"""With top-k 1 there is one possible text; openvino-genai 2026.4.1.0 gives another one if it drafts.

``python openvino_top_k_1.py TARGET DRAFT``: folders of two models in IR with the same tokens.
"""

import sys

import openvino_genai as genai

target, draft = sys.argv[1:]


def text(model, drafts=None):
    """Return the text with or without drafts."""
    config = genai.GenerationConfig(do_sample=True, top_k=1, max_new_tokens=12, apply_chat_template=False)
    more = {}
    if drafts:
        config.num_assistant_tokens = 3
        more["draft_model"] = genai.draft_model(drafts, "CPU")
    pipe = genai.LLMPipeline(model, "CPU", scheduler_config=genai.SchedulerConfig(), **more)
    return pipe.generate(["Question: Tom has"], config).texts[0]


print("the target alone:", text(target))
print("with drafts:     ", text(target, draft))
print("the draft alone: ", text(draft))
