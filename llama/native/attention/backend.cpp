// Attention as llama.cpp sees it: a device that computes one operation,
// FLASH_ATTN_EXT, in host memory, beside the CPU's, as ggml's BLAS device computes matrix
// products. ggml's scheduler gives it what it supports and the CPU the rest, so
// llama.cpp stays as it is. It also takes the product that makes the logits, for the
// reason that logits_product.h has.
//
// Why: in a unified cache a row sees a small part of the cells, and the same part as
// the other candidates of its prompt. ggml's kernels (ggml-cpu/ops.cpp) go through
// all cells for each row and head, and from 64 rows on compute all that any of
// 64 rows sees for each of them.
#include "attention/attention.h"

#include "attention/logits_product.h"
#include "api.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

using namespace agd::attention;

std::atomic<bool>     enabled{ false };
std::atomic<uint64_t> read_as_bits{ 0 }; // masks, for tests

// The kernels that this CPU can run, the best first, then null.
const kernel * kernels() {
    static kernel list[3] = {};
#if defined(__x86_64__) && defined(_OPENMP)
    static const int n = [] {
        int n = 0;
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq")) {
            list[n++] = compute_avx512;
        }
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
            list[n++] = compute_avx2;
        }
        return n;
    }();
    (void) n;
#endif
    return list;
}

struct aligned_free {
    void operator()(float * p) const { ::operator delete[](p, std::align_val_t{ 64 }); }
};

struct worker {
    std::unique_ptr<float[], aligned_free> scratch;
    size_t                                 size = 0;

    float * need(size_t n) {
        if (n > size) {
            scratch.reset(new (std::align_val_t{ 64 }) float[n]);
            size = n;
        }
        return scratch.get();
    }
};

struct instance {
    int                 threads = GGML_DEFAULT_N_THREADS;
    std::vector<worker> workers;
    // The plans of the masks of this evaluation: all layers of a kind have the same. By tensors, not by their data: a mask
    // that a layer computes for itself takes the place of that of the layer before it.
    std::unordered_map<const ggml_tensor *, std::vector<group>> plans;
    mask_bits bits; // of the masks of this evaluation
    agd::logits_product logits;
};

// One task is a group and a head of k and v. Some more of them than threads even out
// what they cost.
constexpr int tasks_per_thread = 2;

// Keys or values of a type, with n values for each cell and head.
kept kept_of(const void * data, ggml_type type, size_t cell, size_t head, int64_t n) {
    kept k{ static_cast<const char *>(data), cell, head, ggml_row_size(type, n), element::other, nullptr };
    switch (type) {
        case GGML_TYPE_F16: k.type = element::f16; break;
        case GGML_TYPE_BF16: k.type = element::bf16; break;
        case GGML_TYPE_Q8_0: k.type = element::q8_0; break;
        default: k.to_float = ggml_get_type_traits(type)->to_float;
    }
    return k;
}

kept kept_of(const ggml_tensor * t) { return kept_of(t->data, t->type, t->nb[1], t->nb[2], t->ne[0]); }

operands operands_of(const ggml_tensor * dst) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    operands            o{};
    o.q      = static_cast<const char *>(q->data);
    o.k      = kept_of(k);
    o.v      = kept_of(v);
    o.out    = static_cast<float *>(dst->data);
    o.sinks  = dst->src[4] != nullptr ? static_cast<const float *>(dst->src[4]->data) : nullptr;
    o.q_row  = q->nb[1];
    o.q_head = q->nb[2];
    o.dk     = static_cast<int>(k->ne[0]);
    o.dv     = static_cast<int>(v->ne[0]);
    o.heads  = static_cast<int>(q->ne[2]);
    o.repeat = static_cast<int>(q->ne[2] / k->ne[2]);
    std::memcpy(&o.scale, dst->op_params, sizeof o.scale);
    return o;
}

visible visible_of(const ggml_tensor * dst) {
    const ggml_tensor * mask = dst->src[3];
    const int           rows = static_cast<int>(dst->src[0]->ne[1]), cells = static_cast<int>(dst->src[1]->ne[1]);
    const auto *        bits = static_cast<const agentd::bit_rows *>(mask->extra);
    return { bits != nullptr && bits->filled ? bits : nullptr, static_cast<const uint16_t *>(mask->data), mask->nb[1] / sizeof(uint16_t), rows, cells };
}

void compute_node(instance & me, const ggml_tensor * dst) {
    const kernel        run  = kernels()[0];
    const operands      o    = operands_of(dst);
    const int           kv   = static_cast<int>(dst->src[1]->ne[2]);
    auto &              groups = me.plans[dst->src[3]];
    if (groups.empty()) {
        const visible mask   = visible_of(dst);
        read_as_bits += mask.bits != nullptr;
        const int     wanted = (tasks_per_thread * me.threads + kv - 1) / kv;
        plan(mask, mask.rows >= 8 * wanted ? wanted : 1, me.threads, groups);
    }
    const int        tasks = static_cast<int>(groups.size()) * kv;
    const int        team  = std::min(me.threads, tasks);
    std::atomic<int> next{ 0 };
    me.workers.resize(std::max<size_t>(me.workers.size(), team));
    for (int i = 0; i < team; i++) {
        me.workers[i].need(scratch_floats(o));
    }
    const auto work = [&](int thread) {
        for (int t = next++; t < tasks; t = next++) {
            run(o, groups[t / kv], t % kv, me.workers[thread].scratch.get());
        }
    };
#ifdef _OPENMP
    #pragma omp parallel num_threads(team)
    work(omp_get_thread_num());
#else
    work(0);
#endif
}

// The backend: one for each context.

const char * backend_name(ggml_backend_t) { return "agentd"; }

void backend_free(ggml_backend_t b) {
    delete static_cast<instance *>(b->context);
    delete b;
}

ggml_status backend_compute(ggml_backend_t b, ggml_cgraph * graph) {
    auto & me = *static_cast<instance *>(b->context);
    ggml_status status = GGML_STATUS_SUCCESS;
    for (int i = 0; i < graph->n_nodes && status == GGML_STATUS_SUCCESS; i++) {
        if (graph->nodes[i]->op == GGML_OP_FLASH_ATTN_EXT) {
            compute_node(me, graph->nodes[i]);
        } else if (graph->nodes[i]->op == GGML_OP_MUL_MAT) {
            status = me.logits.compute(graph, i);
        } // all others are views
    }
    return status;
}

void backend_get_tensor(ggml_backend_t b, const ggml_tensor * t, void * data, size_t offset, size_t size) {
    static_cast<instance *>(b->context)->logits.get(t, data, offset, size);
}

// llama_context sets the threads of all backends before each evaluation, and the
// masks are filled before that: so this is when the plans of the last one end.
void backend_set_threads(ggml_backend_t b, int n) {
    auto & me  = *static_cast<instance *>(b->context);
    me.threads = n;
    me.logits.set_threads(n);
    me.plans.clear();
}

ggml_guid_t guid() {
    static ggml_guid id = { 0x61, 0x67, 0x64, 0x2d, 0x61, 0x74, 0x74, 0x65, 0x6e, 0x74, 0x69, 0x6f, 0x6e, 0x2d, 0x30, 0x31 };
    return &id;
}

// The device.

const char * device_name(ggml_backend_dev_t) { return "agentd"; }
const char * device_description(ggml_backend_dev_t) { return "attention over shared cells"; }
void         device_memory(ggml_backend_dev_t, size_t * free, size_t * total) { *free = *total = 0; }

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }

void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    *props             = {};
    props->name        = device_name(dev);
    props->description = device_description(dev);
    props->type        = device_type(dev);
    props->caps.buffer_from_host_ptr = true;
}

ggml_backend_t device_init(ggml_backend_dev_t dev, const char *) {
    auto me = std::make_unique<instance>();
    if (!me->logits.init()) {
        return nullptr;
    }
    auto * b                  = new ggml_backend{};
    b->guid                   = guid();
    b->iface.get_name         = backend_name;
    b->iface.free             = backend_free;
    b->iface.get_tensor_async = backend_get_tensor;
    b->iface.graph_compute    = backend_compute;
    b->device                 = dev;
    b->context                = me.release();
    return b;
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); }

ggml_backend_buffer_t device_buffer_from_host(ggml_backend_dev_t, void * p, size_t size, size_t) {
    return ggml_backend_cpu_buffer_from_ptr(p, size);
}

// Values that lie side by side, whole vectors and whole blocks of them.
bool readable(const ggml_tensor * t) {
    constexpr int lanes  = 16;
    const auto *  traits = ggml_get_type_traits(t->type);
    return t->ne[0] % lanes == 0 && t->ne[0] % traits->blck_size == 0 && t->nb[0] == traits->type_size && t->ne[3] == 1 &&
           traits->to_float != nullptr;
}

bool supported(const ggml_tensor * op) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
    float             params[3]; // scale, ALiBi's bias, cap of the logits
    std::memcpy(params, op->op_params, sizeof params);
    return mask != nullptr && params[1] == 0.0f && params[2] == 0.0f && q->type == GGML_TYPE_F32 && q->ne[3] == 1 &&
           q->nb[0] == sizeof(float) && readable(k) && readable(v) && k->ne[2] == v->ne[2] && k->ne[1] % tile == 0 &&
           mask->type == GGML_TYPE_F16 && mask->ne[2] == 1 && mask->ne[3] == 1 && (sinks == nullptr || sinks->type == GGML_TYPE_F32);
}

bool device_supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE: return true;
        case GGML_OP_FLASH_ATTN_EXT: return enabled && supported(op);
        case GGML_OP_MUL_MAT: return enabled && agd::logits_product::is(op);
        default: return false;
    }
}

bool device_supports_buffer(ggml_backend_dev_t, ggml_backend_buffer_type_t t) { return ggml_backend_buft_is_host(t); }

// The registry's entry.

const char * reg_name(ggml_backend_reg_t) { return "agentd"; }
size_t       reg_count(ggml_backend_reg_t) { return 1; }

ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t) {
    static ggml_backend_device device = [&] {
        ggml_backend_device d{};
        d.iface.get_name             = device_name;
        d.iface.get_description      = device_description;
        d.iface.get_memory           = device_memory;
        d.iface.get_type             = device_type;
        d.iface.get_props            = device_props;
        d.iface.init_backend         = device_init;
        d.iface.get_buffer_type      = device_buffer_type;
        d.iface.buffer_from_host_ptr = device_buffer_from_host;
        d.iface.supports_op          = device_supports_op;
        d.iface.supports_buft        = device_supports_buffer;
        d.reg                        = reg;
        return d;
    }();
    return &device;
}

void * reg_address(ggml_backend_reg_t, const char * name) {
    return std::strcmp(name, "ggml_backend_set_n_threads") == 0 ? reinterpret_cast<void *>(backend_set_threads) : nullptr;
}

// What this backend has for the masks of a node, if it is what computes the node.
mask_bits * bits_of(ggml_backend_sched_t sched, ggml_tensor * node) {
    ggml_backend_t b = ggml_backend_sched_get_tensor_backend(sched, node);
    return b != nullptr && ggml_guid_matches(ggml_backend_guid(b), guid()) ? &static_cast<instance *>(b->context)->bits : nullptr;
}

void before_inputs(ggml_backend_sched_t sched, ggml_cgraph * graph) { use_bits(sched, graph, bits_of); }

bool register_device() {
    static ggml_backend_reg reg = { GGML_BACKEND_API_VERSION, { reg_name, reg_count, reg_device, reg_address }, nullptr };
    ggml_backend_register(&reg);
    return true;
}

} // namespace

size_t agd::attention::scratch_floats(const operands & o) {
    const size_t heads = static_cast<size_t>(max_group) * o.repeat;
    return (heads + tile) * (o.dk + o.dv) + 2 * heads;
}

extern "C" bool agd_attention(bool on) {
    if (!on || kernels()[0] == nullptr || agd_has_gpu()) {
        enabled = false;
        return false;
    }
    static const bool registered = register_device();
    enabled = registered;
    if (agentd_set_graph_hook != nullptr) {
        agentd_set_graph_hook(before_inputs, agentd::layout);
    }
    return true;
}

extern "C" uint64_t agd_attention_bits(void) { return read_as_bits; }

extern "C" bool agd_attention_once(const struct agd_attention * a, int version) {
    kernel run = nullptr;
    for (int i = 0; i <= version && i < 3; i++) {
        run = kernels()[i];
        if (run == nullptr) {
            return false;
        }
    }
    const auto type = static_cast<ggml_type>(a->type);
    const auto once = [&](const void * data, int n) {
        const size_t head = ggml_row_size(type, n);
        return kept_of(data, type, head * a->kv_heads, head, n);
    };
    operands     o{};
    o.q      = reinterpret_cast<const char *>(a->q);
    o.k      = once(a->k, a->dk);
    o.v      = once(a->v, a->dv);
    o.out    = a->out;
    o.sinks  = a->sinks;
    o.dk     = a->dk;
    o.dv     = a->dv;
    o.heads  = a->heads;
    o.repeat = a->heads / a->kv_heads;
    o.q_row  = sizeof(float) * a->heads * a->dk;
    o.q_head = sizeof(float) * a->dk;
    o.scale  = a->scale;
    const size_t     cells = a->cells;
    agentd::bit_rows bits;
    if (a->bits) {
        agentd::bits_writer to(bits, a->rows, cells);
        for (size_t i = 0; i < a->rows * cells; i++) {
            if (a->mask[i] == 0) {
                to.show(i / cells, i % cells);
            }
        }
    }
    std::vector<group> groups;
    plan({ bits.filled ? &bits : nullptr, a->mask, cells, a->rows, a->cells }, a->groups, 1, groups);
    worker w;
    for (const auto & g : groups) {
        for (int head = 0; head < a->kv_heads; head++) {
            run(o, g, head, w.need(scratch_floats(o)));
        }
    }
    return true;
}
