// Models and vocabularies.
#include "api.h"
#include "binding/internal.h"
#include "grammar/vocab.h"

#include <limits>
#include <string>

#include "gguf.h"
#include "llama-adapter.h"

namespace {

bool ends_with(const std::string & text, const std::string & end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

const ggml_tensor * find_tensor(const llama_model * model, const std::string & name) {
    for (const auto & [other, tensor] : llama_internal_get_tensor_map(model)) {
        if (other == name) {
            return tensor;
        }
    }
    return nullptr;
}

bool computes(ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || ggml_is_quantized(type);
}

// The first tensor of the file that is not part of a pair, which llama.cpp leaves out without a word. "": none.
std::string unpaired(const char * path) {
    std::string    found;
    gguf_context * file = gguf_init_from_file(path, { true, nullptr });
    for (int64_t i = 0; file != nullptr && i < gguf_get_n_tensors(file) && found.empty(); i++) {
        const std::string name = gguf_get_tensor_name(file, i);
        if (!ends_with(name, ".lora_a") && !ends_with(name, ".lora_b")) {
            found = name;
        }
    }
    gguf_free(file);
    return found;
}

// What llama.cpp would abort on during a step, or leave out without a word. "": nothing.
std::string unsupported(const llama_model * model, const llama_adapter_lora & adapter) {
    if (adapter.ab_map.empty()) {
        return "it has no pairs of lora_a and lora_b";
    }
    if (!adapter.alora_invocation_tokens.empty()) {
        return "it is an activated LoRA (aLoRA), which needs invocation tokens; only plain LoRA is supported";
    }
    for (const auto & [name, pair] : adapter.ab_map) {
        const ggml_tensor *weights = find_tensor(model, name), *a = pair.a, *b = pair.b;
        if (weights == nullptr || ggml_n_dims(weights) < 2 || ends_with(name, "conv1d.weight")) {
            return "it changes " + name + ", which is not a matrix that LoRA applies to";
        }
        if (!computes(a->type) || !computes(b->type)) {
            return "the type of its tensors for " + name + " is not one of f32, f16, bf16 and quantized types";
        }
        const bool embedding = ends_with(name, "token_embd.weight");
        if (embedding && find_tensor(model, "output.weight") == nullptr) {
            return "it changes " + name +
                   ", which this model uses for its output too; llama.cpp can't apply that: "
                   "train it without the embeddings, or merge it into the model";
        }
        const int64_t experts = embedding ? 1 : weights->ne[2];
        if (a->ne[2] != experts || b->ne[2] != experts || a->ne[3] != 1 || b->ne[3] != 1 ||
            (embedding ? a->ne[0] : a->ne[1]) != b->ne[0]) {
            return "the shapes of its tensors for " + name + " do not fit the model";
        }
    }
    return "";
}

} // namespace

extern "C" struct llama_model * agd_model_load(const char * path, struct llama_model_params params, char ** err) {
    return agd::guard(err, static_cast<llama_model *>(nullptr), [&] {
        agd::log_errors_reset();
        agd::fault_scope scope;
        llama_model *    model = llama_model_load_from_file(path, params);
        if (model == nullptr) {
            agd::set_logged(err);
        }
        return model;
    });
}

extern "C" struct llama_adapter_lora * agd_adapter_load(struct llama_model * model, const char * path, char ** err) {
    return agd::guard(err, static_cast<llama_adapter_lora *>(nullptr), [&]() -> llama_adapter_lora * {
        agd::log_errors_reset();
        agd::fault_scope     scope;
        llama_adapter_lora * adapter = llama_adapter_lora_init(model, path);
        if (adapter == nullptr) {
            agd::set_logged(err);
            return nullptr;
        }
        std::string why = unsupported(model, *adapter);
        if (const std::string name = unpaired(path); why.empty() && !name.empty()) {
            why = "it replaces " + name + ", which llama.cpp can't apply; train it without";
        }
        if (!why.empty()) {
            llama_adapter_lora_free(adapter);
            agd::set(err, why);
            return nullptr;
        }
        return adapter;
    });
}

extern "C" void agd_adapter_free(struct llama_adapter_lora * adapter) {
    agd::guard(nullptr, 0, [&] {
        llama_adapter_lora_free(adapter);
        return 0;
    });
}

extern "C" uint64_t agd_adapter_bytes(const struct llama_adapter_lora * adapter) {
    uint64_t bytes = 0;
    for (const auto & buffer : adapter->bufs) {
        bytes += ggml_backend_buffer_get_size(buffer.get());
    }
    return bytes;
}

extern "C" void agd_model_tensor_types(const struct llama_model * model, int32_t * counts, int32_t * experts) {
    agd::guard(nullptr, 0, [&] {
        for (const auto & [name, tensor] : llama_internal_get_tensor_map(model)) {
            if (tensor->type >= 0 && tensor->type < GGML_TYPE_COUNT) {
                counts[tensor->type]++;
                experts[tensor->type] += tensor->ne[2] > 1;
            }
        }
        return 0;
    });
}

extern "C" bool agd_vocab_dump(const struct llama_vocab * vocab, char ** pieces, uint32_t * offsets, uint16_t * flags,
                               char ** err) {
    return agd::guard(err, false, [&] {
        std::string all;
        llama_token t = 0;
        for (const auto & token : agd::texts_of(vocab)) {
            offsets[t] = static_cast<uint32_t>(all.size());
            flags[t]   = static_cast<uint16_t>(llama_vocab_get_attr(vocab, t) | (token.eog ? AGD_FLAG_EOG : 0));
            all += token.text;
            t++;
        }
        if (all.size() > std::numeric_limits<uint32_t>::max()) {
            agd::set(err, "the vocabulary's pieces exceed 4 GiB");
            return false;
        }
        offsets[t] = static_cast<uint32_t>(all.size());
        *pieces    = agd::dup(all);
        return *pieces != nullptr;
    });
}

extern "C" bool agd_has_gpu(void) {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr ||
           ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU) != nullptr;
}

extern "C" int32_t agd_tokenize(const struct llama_vocab * vocab, const char * text, int32_t len, llama_token * out,
                                int32_t max, bool add_special, bool parse_special, char ** err) {
    return agd::guard(err, std::numeric_limits<int32_t>::min(),
                      [&] { return llama_tokenize(vocab, text, len, out, max, add_special, parse_special); });
}

extern "C" bool agd_cuts_words(void) {
#ifdef AGENTD_WORDS
    return true;
#else
    return false;
#endif
}
