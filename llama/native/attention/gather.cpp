#include "attention/gather.h"

#include "agentd-mask.h" // third_party/patch
#include "api.h"

#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace agd::attention {

std::atomic<bool> gathering{ false };

namespace {

std::atomic<uint64_t> gathered{ 0 }; // for tests

// Bounds grow in steps of so many cells. A captured CUDA graph holds as long as its parameters.
constexpr int32_t step = 256;

int32_t round_up(int32_t cells) {
    return (cells + step - 1) / step * step;
}

// The masks of the evaluation that this thread prepares, and the nodes that read them.
struct counted_mask {
    ggml_tensor *              mask; // as llama.cpp writes it, in host memory
    agentd::row_lists          counts;
    std::vector<ggml_tensor *> nodes;
};

thread_local std::vector<std::unique_ptr<counted_mask>> masks;
thread_local size_t                                     used = 0; // of masks; the others keep their memory

counted_mask & add_mask(ggml_tensor * mask) {
    if (used == masks.size()) {
        masks.push_back(std::make_unique<counted_mask>());
    }
    counted_mask & m = *masks[used++];
    m.mask           = mask;
    m.nodes.clear();
    m.counts.count  = true;
    m.counts.filled = false;
    return m;
}

bool numbered(const ggml_tensor * t) {
    constexpr size_t n = sizeof agentd::mask_name - 1;
    return std::strncmp(t->name, agentd::mask_name, n) == 0 && t->name[n] == '.';
}

// The mask of which a device reads the given copy: ggml's scheduler puts a mask's name into that of its copy.
ggml_tensor * original(ggml_cgraph * graph, const ggml_tensor * copy) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (ggml_tensor * t = graph->leafs[i]; numbered(t) && std::strstr(copy->name, t->name) != nullptr) {
            return t;
        }
    }
    return nullptr;
}

bool gathers(ggml_backend_dev_t device, const ggml_tensor * node) {
    const ggml_tensor * q = node->src[0];
    const ggml_tensor * k = node->src[1];
    const ggml_tensor * v = node->src[2];
    return k->type == v->type &&
           agd_gathers(device, k->ne[0], v->ne[0], q->ne[2] / k->ne[2], static_cast<int32_t>(k->type));
}

} // namespace

void ask_counts(ggml_backend_sched_t sched, ggml_cgraph * graph) {
    used = 0;
    if (!gathering) {
        return;
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_tensor *       node = ggml_graph_node(graph, i);
        const ggml_tensor * copy = node->op == GGML_OP_FLASH_ATTN_EXT ? node->src[3] : nullptr;
        if (copy == nullptr || copy->op != GGML_OP_NONE || copy->ne[3] != 1) {
            continue;
        }
        ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(sched, node);
        if (backend == nullptr || !gathers(ggml_backend_get_device(backend), node)) {
            continue;
        }
        ggml_tensor * mask = original(graph, copy);
        if (mask == nullptr) {
            continue;
        }
        const auto end = masks.begin() + used;
        const auto at  = std::find_if(masks.begin(), end, [&](const auto & m) { return m->mask == mask; });
        auto &     m   = at == end ? add_mask(mask) : **at;
        mask->extra    = &m.counts;
        m.nodes.push_back(node);
    }
}

void set_bounds() {
    for (size_t i = 0; i < used; i++) {
        counted_mask & m   = *masks[i];
        m.mask->extra      = nullptr;
        const int32_t row  = m.counts.filled ? round_up(m.counts.row_cells) : 0;
        const int32_t tile = m.counts.filled ? round_up(m.counts.tile_cells) : 0;
        for (ggml_tensor * node : m.nodes) {
            ggml_flash_attn_ext_set_n_kv_max(node, row);
            ggml_set_op_params_i32(node, 5, tile); // of third_party/patch/ggml-cuda.patch
            gathered += row > 0 && node->src[1]->ne[1] >= std::max<int64_t>(4096, int64_t{ 2 } * row);
        }
    }
    used = 0;
}

} // namespace agd::attention

extern "C" uint64_t agd_gathered(void) {
    return agd::attention::gathered;
}

extern "C" bool agd_gathers(ggml_backend_dev_t device, int64_t head_k, int64_t head_v, int64_t heads_per_kv,
                            int32_t type) {
    if (device == nullptr) {
        return false;
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    if (std::strcmp(ggml_backend_reg_name(reg), "Vulkan") == 0) {
        return type == GGML_TYPE_F16 && heads_per_kv > 1;
    }
    // Of a CUDA plugin with the patch. Other types than F16 and quantized ones have other memory where it gathers.
    using function     = bool (*)(int device, int64_t head_k, int64_t head_v, int64_t heads_per_kv);
    const auto by_cuda = reinterpret_cast<function>(ggml_backend_reg_get_proc_address(reg, "agentd_gathers"));
    if (by_cuda == nullptr || (type != GGML_TYPE_F16 && !ggml_is_quantized(static_cast<ggml_type>(type)))) {
        return false;
    }
    for (size_t i = 0; i < ggml_backend_reg_dev_count(reg); i++) {
        if (ggml_backend_reg_dev_get(reg, i) == device) {
            return by_cuda(static_cast<int>(i), head_k, head_v, heads_per_kv);
        }
    }
    return false;
}
