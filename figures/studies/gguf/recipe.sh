#!/usr/bin/env bash
# From two models to a report, with the log-probabilities that llama.cpp computes. Run it in the root of the repository:
#     bash figures/studies/gguf/recipe.sh runs/llama.cpp
# It needs a C++ compiler, cmake, and `python3 hlm setup validation gguf`. What is there already is not made again.
set -euo pipefail
work=${1:-runs/llama.cpp}
python=${PYTHON:-.venv/bin/python}
here=figures/studies/gguf
mkdir -p "$work"

# llama.cpp, from the source distribution of its Python package
source=$work/llama_cpp_python-0.3.36/vendor/llama.cpp
if [ ! -d "$source" ]; then
    "$python" -m pip download --no-deps --no-binary llama-cpp-python -d "$work" llama-cpp-python==0.3.36
    tar xzf "$work/llama_cpp_python-0.3.36.tar.gz" -C "$work"
fi
bin=$work/build/bin
if [ ! -x "$bin/llama-quantize" ]; then
    cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF
    cmake --build "$work/build" --target llama-perplexity llama-quantize -j "${JOBS:-2}"
fi

# the pair as GGUF: F32, then quantised
for model in small large; do
    if [ ! -f "$work/$model-F32.gguf" ]; then
        "$python" "$here/convert.py" "$source" "validation/pairs/builtin/$model" \
            --outtype f32 --outfile "$work/$model-F32.gguf"
    fi
    for type in Q8_0 Q4_K Q4_0; do
        if [ ! -f "$work/$model-$type.gguf" ]; then
            "$bin/llama-quantize" "$work/$model-F32.gguf" "$work/$model-$type.gguf" "$type"
        fi
    done
done

# one text, and the log-probabilities of both models on it
"$python" - "$work/text.txt" <<'PYTHON'
import json, pathlib, sys
lines = pathlib.Path("validation/pairs/builtin/prompts.jsonl").read_text(encoding="utf-8").splitlines()
pathlib.Path(sys.argv[1]).write_text("\n\n".join(json.loads(line)["prompt"] for line in lines), encoding="utf-8")
PYTHON
score() {  # MODEL STORE [OPTIONS]
    if [ ! -f "$work/$2.kld" ]; then
        "$bin/llama-perplexity" -m "$work/$1.gguf" -f "$work/text.txt" -c 256 -b 256 -t 1 --chunks 40 \
            --kl-divergence-base "$work/$2.part" "${@:3}"
        mv "$work/$2.part" "$work/$2.kld"
    fi
}
exact=(-ctk f32 -ctv f32 -fa off) # the cache in float32, no flash attention: without these, a row moves by up to .03 nats
for model in small large; do
    for type in F32 Q8_0 Q4_K Q4_0; do
        score "$model-$type" "$model-$type" "${exact[@]}"
    done
    score "$model-F32" "$model-F32-default"
    score "$model-Q8_0" "$model-Q8_0-default"
done

# one chunk of 16 tokens, 7 rows: test data
for model in small large; do
    "$bin/llama-perplexity" -m "$work/$model-F32.gguf" -f "$work/text.txt" -c 16 -b 16 -t 1 --chunks 1 \
        --kl-divergence-base "$work/$model-head.kld" "${exact[@]}"
done

# a trace and a report
"$python" -m validation import --draft "$work/small-F32.kld" --target "$work/large-F32.kld" --out "$work/trace" --dtype float32
echo "The trace is $work/trace. Next: python3 hlm validate --trace $work/trace --out $work/report"
