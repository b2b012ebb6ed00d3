// Contexts: decoding and the KV cache.
#include "api.h"
#include "assumptions.h"
#include "attention/logits_product.h"
#include "binding/internal.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ggml.h"
#include "llama-cparams.h"
#include "llama-ext.h"

static_assert(AGD_MAX_SEQUENCES == LLAMA_MAX_SEQ,
              "llama.cpp allows another number of sequences: change AGD_MAX_SEQUENCES");

namespace {

// Architectures whose last node has no name in the pinned llama.cpp.
bool names_output(const llama_model * model) {
    char arch[64] = "";
    llama_model_meta_val_str(model, "general.architecture", arch, sizeof arch);
    return std::string(arch) != "plamo3";
}

} // namespace

struct agd_context {
    llama_context *   ctx = nullptr;
    std::atomic<bool> abort{ false };
    std::string       detail;           // text of the last error
    bool              mrope     = false; // positions may jump forward
    bool              lost      = false; // a device failed
    int32_t           fail_in   = 0;     // graph nodes until one is made to fail
    int32_t           fail_with = 0;

    // Runs f where a device may fail.
    template <typename T, typename F> T on_device(T fallback, F f) noexcept {
        try {
            agd::fault_scope scope;
            return f();
        } catch (const agd::device_lost & e) {
            lost   = true;
            detail = e.what();
        } catch (const std::exception & e) {
            lost   = agd::vulkan_failed(e);
            detail = e.what();
        } catch (...) {
            detail = "unknown C++ exception";
        }
        return fallback;
    }

    ~agd_context() {
        if (ctx != nullptr && !lost && !agd_gpu_failed()) {
            llama_free(ctx);
        }
    }

    // Checks that positions continue where each sequence ends. llama_decode checks the same and answers -1, but only
    // its log says which sequence was wrong.
    bool positions_fit(const llama_batch & batch) {
        bool           seen[AGD_MAX_SEQUENCES] = {};
        llama_memory_t mem                     = llama_get_memory(ctx);
        for (int32_t i = 0; i < batch.n_tokens; i++) {
            const llama_seq_id seq = batch.seq_id[i][0];
            if (seen[seq]) {
                continue; // the Go side has checked that they are consecutive
            }
            seen[seq]           = true;
            const llama_pos end = llama_memory_seq_pos_max(mem, seq);
            const llama_pos got = batch.pos[i];
            if (end >= 0 && got != end + 1 && !(mrope && got > end)) {
                detail = "sequence " + std::to_string(seq) + " goes on at position " + std::to_string(end + 1) +
                         ", not " + std::to_string(got);
                return false;
            }
        }
        return true;
    }
};

extern "C" struct agd_context * agd_context_new(struct llama_model * model, struct llama_context_params params,
                                                int32_t fail_at, int32_t fail_with, char ** err) {
    return agd::guard(err, static_cast<agd_context *>(nullptr), [&]() -> agd_context * {
        agd::log_errors_reset();
        auto c                = std::make_unique<agd_context>();
        params.abort_callback = [](void * data) {
            return static_cast<agd_context *>(data)->abort.load(std::memory_order_relaxed);
        };
        params.abort_callback_data = c.get();
        if (fail_at > 0) {
            c->fail_in     = fail_at;
            c->fail_with   = fail_with;
            params.cb_eval = [](ggml_tensor *, bool ask, void * data) {
                auto * failing = static_cast<agd_context *>(data);
                if (!ask && --failing->fail_in == 0) {
                    if (failing->fail_with != 0) {
                        agd::throw_vulkan(failing->fail_with);
                    }
                    GGML_ABORT("made to fail");
                }
                return true;
            };
            params.cb_eval_user_data = c.get();
        }

        const bool attention = agd_attention_enabled();
        agd::logits_product::take_offered();
        {
            agd::fault_scope scope;
            c->ctx = llama_init_from_model(model, params);
        }
        if (c->ctx == nullptr) {
            agd::set_logged(err);
            return nullptr;
        }
        if (llama_get_memory(c->ctx) == nullptr) {
            agd::set(err, "the model has no memory to decode with (an encoder?)");
            return nullptr;
        }
        if (attention && names_output(model) && !agd::logits_product::take_offered()) {
            agd::set(err, AGD_INCOMPATIBLE
                     "llama.cpp no longer names the node of the logits result_output, so that they can't be "
                     "deferred; use the pinned llama.cpp or switch shared attention off");
            return nullptr;
        }
        const auto rope = llama_model_rope_type(model);
        c->mrope        = rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE;
        return c.release();
    });
}

extern "C" void agd_context_free(struct agd_context * ctx) {
    agd::guard(nullptr, 0, [&] {
        delete ctx;
        return 0;
    });
}

extern "C" struct llama_context * agd_context_raw(struct agd_context * ctx) {
    return ctx->ctx;
}

extern "C" int32_t agd_context_uses(const struct agd_context * ctx, struct agd_use * out, int32_t max) {
    return agd::guard(nullptr, 0, [&]() -> int32_t {
        std::map<ggml_backend_dev_t, agd_use> uses{ { nullptr, {} } };
        const auto                            on = [&](ggml_backend_buffer_type_t type) -> agd_use & {
            const auto device   = ggml_backend_buft_is_host(type) ? nullptr : ggml_backend_buft_get_device(type);
            uses[device].device = device;
            return uses[device];
        };
        for (const auto & [type, bytes] : llama_get_memory_breakdown(ctx->ctx)) {
            auto & use = on(type);
            use.weights += bytes.model;
            use.memory += bytes.context;
            use.compute += bytes.compute;
        }
        std::set<std::string> layers;
        for (const auto & [name, tensor] : llama_internal_get_tensor_map(llama_get_model(ctx->ctx))) {
            const size_t end = name.find('.', std::strlen("blk."));
            if (name.rfind("blk.", 0) == 0 && tensor->buffer != nullptr && layers.insert(name.substr(0, end)).second) {
                on(ggml_backend_buffer_get_type(tensor->buffer)).layers++;
            }
        }
        int32_t n = 0;
        for (const auto & [device, use] : uses) {
            if (n < max) {
                out[n] = use;
            }
            n++;
        }
        return n;
    });
}

extern "C" int agd_decode(struct agd_context * ctx, struct llama_batch batch) {
    agd::assumption::take_failure();
    agd::logits_product::take_unread();
    const int rc = ctx->on_device(AGD_DECODE_THROWN, [&] {
        if (ctx->abort.load(std::memory_order_relaxed)) {
            return 2; // not every backend asks the callback
        }
        if (!ctx->positions_fit(batch)) {
            return AGD_DECODE_POSITION;
        }
        return static_cast<int>(llama_decode(ctx->ctx, batch));
    });
    if (ctx->lost) {
        return AGD_DECODE_LOST;
    }
    if (rc == 0 && agd::logits_product::take_unread()) {
        agd::assumption::fail(
            "llama.cpp no longer reads logits through the backend that computes them, so that deferred ones "
            "would be missing; use the pinned llama.cpp or switch shared attention off");
    }
    if (const char * text = agd::assumption::take_failure()) {
        ctx->detail = text;
        return AGD_DECODE_INCOMPATIBLE;
    }
    return rc;
}

extern "C" bool agd_context_adapter(struct agd_context * ctx, struct llama_adapter_lora * adapter) {
    return ctx->on_device(false, [&] {
        float scale = 1;
        return llama_set_adapters_lora(ctx->ctx, &adapter, adapter != nullptr ? 1 : 0, &scale) == 0;
    });
}

extern "C" bool agd_context_lost(const struct agd_context * ctx) {
    return ctx->lost;
}

extern "C" const char * agd_context_detail(const struct agd_context * ctx) {
    return ctx->detail.c_str();
}

extern "C" void agd_abort(struct agd_context * ctx, bool on) {
    ctx->abort.store(on, std::memory_order_relaxed);
}

extern "C" float * agd_logits(struct agd_context * ctx) {
    return ctx->on_device(static_cast<float *>(nullptr), [&] { return llama_get_logits(ctx->ctx); });
}

extern "C" int agd_seq_cp(struct agd_context * ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1) {
    return ctx->on_device(-1, [&] {
        llama_memory_seq_cp(llama_get_memory(ctx->ctx), src, dst, p0, p1);
        return 0;
    });
}

extern "C" int agd_seq_rm(struct agd_context * ctx, int32_t seq, int32_t p0, int32_t p1) {
    return ctx->on_device(-1, [&] { return llama_memory_seq_rm(llama_get_memory(ctx->ctx), seq, p0, p1) ? 0 : 1; });
}

extern "C" int agd_memory_clear(struct agd_context * ctx, bool data) {
    return ctx->on_device(-1, [&] {
        llama_memory_clear(llama_get_memory(ctx->ctx), data);
        return 0;
    });
}

struct agd_state {
    std::unique_ptr<uint8_t[]> data; // as llama.cpp writes it
    size_t                     size = 0;
};

extern "C" struct agd_state * agd_seq_save(struct agd_context * ctx, int32_t seq, int32_t scratch, int32_t p0,
                                           int32_t p1) {
    return ctx->on_device(static_cast<agd_state *>(nullptr), [&]() -> agd_state * {
        // llama.cpp saves whole sequences only, so scratch becomes a sequence of just these cells.
        llama_memory_t mem = llama_get_memory(ctx->ctx);
        llama_memory_seq_cp(mem, seq, scratch, p0, p1);
        auto s  = std::make_unique<agd_state>();
        s->size = llama_state_seq_get_size(ctx->ctx, scratch);
        s->data.reset(new uint8_t[s->size]); // not zeroed
        const size_t written = llama_state_seq_get_data(ctx->ctx, s->data.get(), s->size, scratch);
        llama_memory_seq_rm(mem, scratch, -1, -1);
        return written == s->size ? s.release() : nullptr;
    });
}

extern "C" int agd_seq_load(struct agd_context * ctx, const struct agd_state * s, int32_t scratch, int32_t seq,
                            int32_t p0, int32_t p1) {
    return ctx->on_device(-1, [&] {
        llama_memory_t mem  = llama_get_memory(ctx->ctx);
        const bool     done = llama_state_seq_set_data(ctx->ctx, s->data.get(), s->size, scratch) == s->size;
        if (done) {
            llama_memory_seq_cp(mem, scratch, seq, p0, p1);
        }
        llama_memory_seq_rm(mem, scratch, -1, -1);
        return done ? 0 : 1;
    });
}

extern "C" void agd_state_free(struct agd_state * s) {
    delete s;
}
