// Attention as llama.cpp sees it: a ggml device beside the CPU's, of the kind that ggml's BLAS device is. It
// computes FLASH_ATTN_EXT in host memory, and the product that makes the logits (logits_product.h). ggml's scheduler
// gives it the nodes that it supports and the CPU the rest.
#include "attention/attention.h"

#include "api.h"
#include "assumptions.h"
#include "attention/logits_product.h"
#include "errors.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

static_assert(GGML_BACKEND_API_VERSION == 3,
              "ggml has another backend interface: check every table of functions in attention/backend.cpp");

static_assert(agentd::max_sequences == AGD_MAX_SEQUENCES,
              "the patch and the binding allow different numbers of sequences");

namespace {

using namespace agd::attention;
namespace assumption = agd::assumption;

std::atomic<bool>     enabled{ false };
std::atomic<bool>     only_f32{ false };
std::atomic<bool>     hooked{ false };   // libllama calls before_inputs
std::atomic<uint64_t> listed_masks{ 0 }; // for tests

struct instance {
    int                         threads = GGML_DEFAULT_N_THREADS;
    std::vector<scratch_buffer> scratch; // of each thread
    // The plans of the masks of this evaluation: all layers of a kind have the same. The key is the tensor and not
    // its data, since a mask that a layer computes may take the memory of an earlier layer's.
    std::unordered_map<const ggml_tensor *, std::vector<group>> plans;
    mask_lists                                                  lists; // the masks of this evaluation
    agd::logits_product                                         logits;

    // Evaluations that the hook has announced, and those that threads were set for. See check_order.
    uint64_t            announced = 0, prepared = 0;
    const ggml_tensor * first = nullptr; // node computed since threads were set

    bool rounds = false; // rounds_activations of the graph
};

// More tasks than threads even out what they cost. More groups would load shared tiles again, single heads do not.
constexpr int tasks_per_thread = 4, tasks_by_groups = 2;

// Whether the values of a tensor lie side by side, in whole vectors and whole blocks.
bool readable(const ggml_tensor * t) {
    constexpr int lanes  = 16;
    const auto *  traits = ggml_get_type_traits(t->type);
    return t->ne[0] % lanes == 0 && t->ne[0] % traits->blck_size == 0 && t->nb[0] == traits->type_size &&
           t->ne[3] == 1 && (t->type == GGML_TYPE_F32 || traits->to_float != nullptr);
}

// llama.cpp casts keys and values of an F32 cache to F16 for FLASH_ATTN_EXT (build_attn_mha in llama-graph.cpp). This
// is the view of the cache that t was cast from, or t itself. The cache outlives the graph, as no node's memory does.
const ggml_tensor * before_cast(const ggml_tensor * t) {
    const ggml_tensor * from = t->op == GGML_OP_CPY && t->src[1] == t ? t->src[0] : nullptr;
    if (from == nullptr || from->type != GGML_TYPE_F32 || from->view_src == nullptr || !readable(from)) {
        return t;
    }
    const ggml_tensor * cache = from->view_src;
    const bool          kept  = cache->op == GGML_OP_NONE && cache->buffer != nullptr &&
                                ggml_backend_buffer_is_host(cache->buffer) &&
                                ggml_backend_buffer_get_usage(cache->buffer) != GGML_BACKEND_BUFFER_USAGE_COMPUTE;
    return kept ? from : t;
}

kv_view kv_view_of(const ggml_tensor * t) {
    return make_kv_view(t->data, t->type, t->nb[1], t->nb[2], t->ne[0]);
}

operands operands_of(const ggml_tensor * dst) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    operands            o{};
    o.q      = static_cast<const char *>(q->data);
    o.k      = kv_view_of(before_cast(k));
    o.v      = kv_view_of(before_cast(v));
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

mask_view mask_view_of(const ggml_tensor * dst) {
    const ggml_tensor * mask = dst->src[3];
    const int           rows = static_cast<int>(dst->src[0]->ne[1]), cells = static_cast<int>(dst->src[1]->ne[1]);
    const auto *        lists = static_cast<const agentd::row_lists *>(mask->extra);
    return { lists != nullptr && lists->filled ? lists : nullptr, static_cast<const uint16_t *>(mask->data),
             mask->nb[1] / sizeof(uint16_t), rows, cells };
}

// Plans must not outlive their mask. They end when threads are set, which llama.cpp does for each evaluation
// after it has written the masks. This reports whether that still holds.
bool check_order(instance & me, const ggml_tensor * node) {
    if (hooked && me.announced == 0) {
        assumption::fail("llama.cpp no longer calls the patch's hook before it sets a graph's inputs; "
                         "use the pinned llama.cpp or switch shared attention off");
        return false;
    }
    const bool stale = hooked ? me.prepared != me.announced : node == me.first;
    if (stale) {
        assumption::fail(
            "llama.cpp no longer sets a backend's threads before each evaluation, so that plans of old masks "
            "would be used; use the pinned llama.cpp or switch shared attention off");
        return false;
    }
    if (me.first == nullptr) {
        me.first = node;
    }
    return true;
}

void compute_node(instance & me, const ggml_tensor * dst) {
    const operands o      = operands_of(dst);
    const kernel   run    = kernel_for(o, me.rounds && !only_f32);
    const int      kv     = static_cast<int>(dst->src[1]->ne[2]);
    auto &         groups = me.plans[dst->src[3]];
    if (groups.empty()) {
        const mask_view mask   = mask_view_of(dst);
        const int       wanted = (tasks_by_groups * me.threads + kv - 1) / kv;
        listed_masks += mask.lists != nullptr;
        plan(mask, mask.rows >= 8 * wanted ? wanted : 1, me.threads, groups);
    }
    // A task is a group and a part of the heads of k and v.
    const int        n       = static_cast<int>(groups.size());
    const int        parts   = me.threads == 1 ? 1 : std::min(kv, (tasks_per_thread * me.threads + n - 1) / n);
    const int        tasks   = n * parts;
    const int        threads = std::min(me.threads, tasks);
    std::atomic<int> next{ 0 };
    me.scratch.resize(std::max<size_t>(me.scratch.size(), threads));
    const auto work = [&](scratch_buffer & scratch) {
        for (int t = next++; t < tasks; t = next++) {
            const group & g    = groups[t / parts];
            const int     end  = kv * (t % parts + 1) / parts;
            const int     most = heads_at_once(o, g);
            for (int head = kv * (t % parts) / parts; head < end; head += most) {
                const int heads = std::min(most, end - head);
                run(o, g, head, heads, scratch.reserve(scratch_floats(o, heads)));
            }
        }
    };
#pragma omp parallel num_threads(threads)
    work(me.scratch[omp_get_thread_num()]);
}

// The backend: one for each context.

constexpr const char * name        = "agentd";
constexpr const char * description = "attention over shared cells";

void backend_free(ggml_backend_t b) {
    delete static_cast<instance *>(b->context);
    delete b;
}

ggml_status backend_compute(ggml_backend_t b, ggml_cgraph * graph) {
    auto &      me     = *static_cast<instance *>(b->context);
    ggml_status status = GGML_STATUS_SUCCESS;
    for (int i = 0; i < graph->n_nodes && status == GGML_STATUS_SUCCESS; i++) {
        if (graph->nodes[i]->op == GGML_OP_FLASH_ATTN_EXT) {
            if (!check_order(me, graph->nodes[i])) {
                return GGML_STATUS_FAILED;
            }
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

// llama_context calls this for each evaluation, after it has written the masks.
void backend_set_threads(ggml_backend_t b, int n) {
    if (assumption::broken(assumption::thread_call)) {
        return;
    }
    auto & me   = *static_cast<instance *>(b->context);
    me.threads  = n;
    me.prepared = me.announced;
    me.first    = nullptr;
    me.logits.set_threads(n);
    me.plans.clear();
}

ggml_guid_t guid() {
    static ggml_guid id = { 0x61, 0x67, 0x64, 0x2d, 0x61, 0x74, 0x74, 0x65,
                            0x6e, 0x74, 0x69, 0x6f, 0x6e, 0x2d, 0x30, 0x31 };
    return &id;
}

// The device.

void device_props(ggml_backend_dev_t, ggml_backend_dev_props * props) {
    *props                           = {};
    props->name                      = name;
    props->description               = description;
    props->type                      = GGML_BACKEND_DEVICE_TYPE_ACCEL;
    props->caps.buffer_from_host_ptr = true;
}

ggml_backend_t device_init(ggml_backend_dev_t dev, const char *) {
    auto me = std::make_unique<instance>();
    if (!me->logits.init()) {
        return nullptr;
    }
    auto * b                  = new ggml_backend{};
    b->guid                   = guid();
    b->iface.get_name         = [](ggml_backend_t) { return name; };
    b->iface.free             = backend_free;
    b->iface.get_tensor_async = backend_get_tensor;
    b->iface.graph_compute    = backend_compute;
    b->device                 = dev;
    b->context                = me.release();
    return b;
}

bool supported(const ggml_tensor * op) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
    float              params[3]; // scale, ALiBi's bias, cap of the logits
    std::memcpy(params, op->op_params, sizeof params);
    return mask != nullptr && params[1] == 0.0f && params[2] == 0.0f && q->type == GGML_TYPE_F32 && q->ne[3] == 1 &&
           q->nb[0] == sizeof(float) && readable(k) && readable(v) && k->ne[2] == v->ne[2] && k->ne[1] % tile == 0 &&
           mask->type == GGML_TYPE_F16 && mask->ne[2] == 1 && mask->ne[3] == 1 &&
           (sinks == nullptr || sinks->type == GGML_TYPE_F32);
}

bool device_supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE: return true;
        case GGML_OP_FLASH_ATTN_EXT: return enabled && supported(op);
        default: return enabled && agd::logits_product::matches(op);
    }
}

// The registry's entry.

ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t) {
    static ggml_backend_device device = [&] {
        ggml_backend_device d{};
        d.iface.get_name             = [](ggml_backend_dev_t) { return name; };
        d.iface.get_description      = [](ggml_backend_dev_t) { return description; };
        d.iface.get_memory           = [](ggml_backend_dev_t, size_t * free, size_t * total) { *free = *total = 0; };
        d.iface.get_type             = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
        d.iface.get_props            = device_props;
        d.iface.init_backend         = device_init;
        d.iface.get_buffer_type      = [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); };
        d.iface.buffer_from_host_ptr = [](ggml_backend_dev_t, void * p, size_t size, size_t) {
            return ggml_backend_cpu_buffer_from_ptr(p, size);
        };
        d.iface.supports_op   = device_supports_op;
        d.iface.supports_buft = [](ggml_backend_dev_t, ggml_backend_buffer_type_t t) {
            return ggml_backend_buft_is_host(t);
        };
        d.reg = reg;
        return d;
    }();
    return &device;
}

void * reg_address(ggml_backend_reg_t, const char * name) {
    return std::strcmp(name, "ggml_backend_set_n_threads") == 0 ? reinterpret_cast<void *>(backend_set_threads)
                                                                : nullptr;
}

// A backend's instance, or null if it is not ours.
instance * instance_of(ggml_backend_t b) {
    return b != nullptr && ggml_guid_matches(ggml_backend_guid(b), guid()) ? static_cast<instance *>(b->context)
                                                                           : nullptr;
}

mask_lists * lists_of(ggml_backend_sched_t sched, ggml_tensor * node) {
    instance * me = instance_of(ggml_backend_sched_get_tensor_backend(sched, node));
    return me != nullptr ? &me->lists : nullptr;
}

// llama.cpp with our patch calls this when a graph has its memory, before its inputs are set.
void before_inputs(ggml_backend_sched_t sched, ggml_cgraph * graph) {
    if (assumption::broken(assumption::graph_hook)) {
        return;
    }
    for (int i = 0; i < ggml_backend_sched_get_n_backends(sched); i++) {
        if (instance * me = instance_of(ggml_backend_sched_get_backend(sched, i))) {
            me->announced++;
            me->rounds = rounds_activations(graph);
        }
    }
    use_lists(sched, graph, lists_of);
}

constexpr agentd::graph_hooks hooks{ before_inputs };

void register_backend() {
    static ggml_backend_reg reg = { GGML_BACKEND_API_VERSION,
                                    { [](ggml_backend_reg_t) { return name; },
                                      [](ggml_backend_reg_t) { return size_t{ 1 }; }, reg_device, reg_address },
                                    nullptr };
    static std::once_flag   once;
    std::call_once(once, [] { ggml_backend_register(&reg); });
}

// Installs the hook in a libllama that has the patch. Returns what is wrong, or null.
const char * install_hook() {
    if (agentd_set_graph_hooks == nullptr) {
#ifdef AGENTD_PATCHED
        return "libllama was built without the patch that its source has; run make again";
#else
        return nullptr;
#endif
    }
    const uint64_t layout = assumption::broken(assumption::mask_layout) ? agentd::layout + 1 : agentd::layout;
    if (!agentd_set_graph_hooks(&hooks, layout)) {
        return "libllama was built with another layout of masks than this program; run make again";
    }
    hooked = true;
    return nullptr;
}

// Whether nothing is wrong.
bool holds(const char * wrong, char ** err) {
    return agd::guard(err, false, [&] {
        if (wrong != nullptr) {
            agd::set(err, wrong);
        }
        return wrong == nullptr;
    });
}

} // namespace

extern "C" bool agd_attention(bool on) {
    enabled = on && kernels()[0] != nullptr && !agd_has_gpu();
    if (enabled) {
        register_backend();
    }
    return enabled;
}

extern "C" bool agd_attention_enabled(void) {
    return enabled;
}

extern "C" void agd_attention_f32(bool on) {
    only_f32 = on;
}

extern "C" bool agd_attention_check(char ** err) {
    return holds(enabled ? install_hook() : nullptr, err);
}

extern "C" uint64_t agd_attention_lists(void) {
    return listed_masks;
}

extern "C" bool agd_patched(void) {
    return install_hook() == nullptr && hooked;
}
