// Chooses the masks of a graph that llama.cpp writes as lists (third_party/patch/agentd-mask.h): those that only our
// attention reads. The others keep their values for ggml's own kernels.
#include "attention/attention.h"

#include <algorithm>

namespace agd::attention {

namespace {

struct read {
    ggml_tensor * mask;
    mask_lists *  by; // the only reader; null: there are others
};

bool attends(const ggml_tensor * node) {
    return node->op == GGML_OP_FLASH_ATTN_EXT && node->src[3] != nullptr;
}

// Whether a node uses a tensor other than as the mask of an attention.
bool uses(const ggml_tensor * node, const ggml_tensor * t) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        if (node->src[s] == t && !(attends(node) && s == 3)) {
            return true;
        }
    }
    return node->view_src == t;
}

} // namespace

void use_lists(ggml_backend_sched_t sched, ggml_cgraph * graph,
               mask_lists * (*lists_of)(ggml_backend_sched_t, ggml_tensor *) ) {
    std::vector<read> masks; // one or two
    const int         nodes = ggml_graph_n_nodes(graph);
    for (int i = 0; i < nodes; i++) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (!attends(node)) {
            continue;
        }
        ggml_tensor * mask = node->src[3];
        mask_lists *  by   = mask->op == GGML_OP_NONE && mask->view_src == nullptr ? lists_of(sched, node) : nullptr;
        const auto    at   = std::find_if(masks.begin(), masks.end(), [&](const read & r) { return r.mask == mask; });
        if (at == masks.end()) {
            masks.push_back({ mask, by });
        } else if (at->by != by) {
            at->by = nullptr;
        }
    }
    for (int i = 0; i < nodes; i++) {
        for (read & r : masks) {
            if (uses(ggml_graph_node(graph, i), r.mask)) {
                r.by = nullptr;
            }
        }
    }
    for (const read & r : masks) {
        r.mask->extra = nullptr;
        if (r.by == nullptr) {
            continue;
        }
        const size_t before = std::count_if<const read *>(masks.data(), &r,
                                                          [&](const read & o) { return o.by == r.by; });
        if (before == r.by->size()) {
            r.by->push_back(std::make_unique<agentd::row_lists>());
        }
        agentd::row_lists & l = *(*r.by)[before];
        l.filled              = false;
        r.mask->extra         = &l;
    }
}

} // namespace agd::attention
