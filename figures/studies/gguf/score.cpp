// Functions of llama.cpp for measure_smollm2.py, which loads them beside a prebuilt library: see smollm2.sh.
//
// perplexity.cpp is llama.cpp's own, so the stores are written by the code of llama-perplexity. Its reading of options
// and its class of batches are replaced, because their structures differ between versions of llama.cpp; llama.h's do not.
#include "common.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

struct Batch {
    explicit Batch(llama_context *) {}
    void clear() { ids.clear(); positions.clear(); sequences.clear(); outputs.clear(); }
    void add(llama_token id, llama_pos position, llama_seq_id sequence, bool output) {
        ids.push_back(id);
        positions.push_back(position);
        sequences.push_back(sequence);
        outputs.push_back(output);
    }
    int size() const { return static_cast<int>(ids.size()); }
    llama_batch * get() { return get_sub_batch(0, size()); }
    llama_batch * get_sub_batch(int from, int count) {
        counts.assign(size(), 1);
        addresses.resize(size());
        for (int at = 0; at < size(); ++at) { addresses[at] = &sequences[at]; }
        view = {count, ids.data() + from, nullptr, positions.data() + from, counts.data() + from, addresses.data() + from, outputs.data() + from};
        return &view;
    }
    std::vector<llama_token> ids;
    std::vector<llama_pos> positions;
    std::vector<llama_seq_id> sequences;
    std::vector<int8_t> outputs;
    std::vector<int32_t> counts;
    std::vector<llama_seq_id *> addresses;
    llama_batch view{};
};

static int process(llama_context * ctx, llama_process_type, llama_batch * batch) { return llama_decode(ctx, *batch); }

#define common_batch Batch
#define llama_process process
#include "store_part.cpp"

struct Opened {
    llama_model * model = nullptr;
    llama_context * ctx = nullptr;
    ~Opened() {
        if (ctx) { llama_free(ctx); }
        if (model) { llama_model_free(model); }
    }
};

static bool open_model(Opened & opened, const char * path, int n_ctx, bool exact, bool repack, ggml_backend_sched_eval_callback callback, void * data) {
    llama_model_params loading = llama_model_default_params();
    loading.use_extra_bufts = repack;
    opened.model = llama_model_load_from_file(path, loading);
    if (!opened.model) { return false; }
    llama_context_params settings = llama_context_default_params();
    settings.n_ctx = settings.n_batch = settings.n_ubatch = n_ctx;
    settings.n_threads = settings.n_threads_batch = 1;
    settings.cb_eval = callback;
    settings.cb_eval_user_data = data;
    if (exact) {  // -ctk f32 -ctv f32 -fa off
        settings.type_k = settings.type_v = GGML_TYPE_F32;
        settings.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    opened.ctx = llama_init_from_model(opened.model, settings);
    return opened.ctx != nullptr;
}

extern "C" int store(const char * path, const char * text, const char * out, int n_ctx, int chunks, int exact, int repack) {
    Opened opened;
    if (!open_model(opened, path, n_ctx, exact, repack, nullptr, nullptr)) { return 1; }
    common_params params;
    params.n_ctx = params.n_batch = n_ctx;
    params.n_chunks = chunks;
    params.prompt = text;
    params.logits_file = out;
    perplexity(opened.ctx, params, n_ctx);
    return 0;
}

// Values of the named tensors of a pass, in the order in which they are computed.
struct Kept {
    std::map<std::string, int> seen;
    std::string folder;
};

static bool keep(ggml_tensor * tensor, bool ask, void * data) {
    auto * kept = static_cast<Kept *>(data);
    const std::string name = tensor->name;
    if (ask) { return name.find(" (") == std::string::npos; }
    if (tensor->type != GGML_TYPE_F32 || !ggml_is_contiguous(tensor)) { return true; }
    std::vector<char> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    const std::string file = kept->folder + "/" + name + "." + std::to_string(kept->seen[name]++) + ".f32";
    std::ofstream(file, std::ios::binary).write(bytes.data(), bytes.size());
    return true;
}

extern "C" int pass(const char * path, const int * tokens, int count, const char * folder, int exact, int repack) {
    Kept kept;
    kept.folder = folder;
    Opened opened;
    if (!open_model(opened, path, count, exact, repack, keep, &kept)) { return 1; }
    common_batch batch(opened.ctx);
    for (int at = 0; at < count; ++at) { batch.add(tokens[at], at, 0, true); }
    return llama_process(opened.ctx, LLAMA_PROCESS_TYPE_DECODE, batch.get());
}

// Logits after each token of each text from its first kept one on; the texts and the rows lie one after the other.
extern "C" int rows(const char * path, const int * tokens, const int * lengths, const int * firsts, int texts, float * out, int exact) {
    Opened opened;
    int longest = 0;
    for (int at = 0; at < texts; ++at) { longest = std::max(longest, lengths[at]); }
    if (!open_model(opened, path, longest, exact, true, nullptr, nullptr)) { return 1; }
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(opened.model));
    for (int text = 0; text < texts; tokens += lengths[text++]) {
        llama_memory_clear(llama_get_memory(opened.ctx), true);
        Batch batch(opened.ctx);
        for (int at = 0; at < lengths[text]; ++at) { batch.add(tokens[at], at, 0, at >= firsts[text]); }
        if (llama_decode(opened.ctx, *batch.get())) { return 2; }
        for (int at = firsts[text]; at < lengths[text]; ++at) {
            out = std::copy_n(llama_get_logits_ith(opened.ctx, at), vocabulary, out);
        }
    }
    return 0;
}

extern "C" int dequantise(int type, const void * from, float * to, int64_t count) {
    const ggml_type_traits * traits = ggml_get_type_traits(static_cast<ggml_type>(type));
    if (!traits->to_float) { return 1; }
    traits->to_float(from, to, count);
    return 0;
}

extern "C" const char * defaults() {  // to see that the structures of this header are those of the library
    static std::string said;
    const llama_context_params c = llama_context_default_params();
    said = "n_ctx " + std::to_string(c.n_ctx) + ", n_batch " + std::to_string(c.n_batch) + ", n_ubatch " +
        std::to_string(c.n_ubatch) + ", type_k " + std::to_string(c.type_k) + ", type_v " + std::to_string(c.type_v) +
        ", fa " + std::to_string(c.flash_attn_type) + ", samplers " + std::to_string(c.n_samplers) + "; " +
        llama_print_system_info();
    return said.c_str();
}
