#!/usr/bin/env bash
# What measure_smollm2.py needs, in minutes and without a build of llama.cpp. Run it in the root of the repository:
#     bash figures/studies/gguf/smollm2.sh runs/llama.cpp
# It needs a C++ compiler, unzip, npm, and `python3 hlm setup validation gguf smollm2`. What is there already is kept.
set -euo pipefail
work=${1:-runs/llama.cpp}
python=${PYTHON:-.venv/bin/python}
mkdir -p "$work"

# llama.cpp of a wheel: its library and its server (release b11549)
if [ ! -d "$work/wheel" ]; then
    "$python" -m pip download --no-deps --only-binary :all: -d "$work" xllamacpp==2026.10.11549
    unzip -qo "$work"/xllamacpp-2026.10.11549-*.whl -d "$work/wheel"
fi
# the wheel leaves out the function that quantises: llama.cpp v0.5.0 of node-llama-cpp has it
if [ ! -d "$work/package" ]; then
    (cd "$work" && npm pack @node-llama-cpp/linux-x64@3.22.1 && tar xzf node-llama-cpp-linux-x64-3.22.1.tgz)
fi
# headers and perplexity.cpp, of the source distribution that recipe.sh builds
source=$work/llama_cpp_python-0.3.36/vendor/llama.cpp
if [ ! -d "$source" ]; then
    "$python" -m pip download --no-deps --no-binary llama-cpp-python -d "$work" llama-cpp-python==0.3.36
    tar xzf "$work/llama_cpp_python-0.3.36.tar.gz" -C "$work"
fi
if [ ! -f "$work/score.so" ]; then
    sed '/^static bool decode_helper/,$d' "$source/tools/perplexity/perplexity.cpp" > "$work/store_part.cpp"
    # the wheel was made with the older names of std::string
    g++ -std=c++17 -O2 -fPIC -shared -D_GLIBCXX_USE_CXX11_ABI=0 -Wno-unused-function \
        -I"$source/include" -I"$source/common" -I"$source/ggml/include" -I"$source/vendor" -I"$work" \
        figures/studies/gguf/score.cpp -o "$work/score.so"
fi
echo "Next: PYTHONPATH=. $python figures/studies/gguf/measure_smollm2.py --work $work"
