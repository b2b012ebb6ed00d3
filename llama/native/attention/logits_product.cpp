#include "attention/logits_product.h"

#include "assumptions.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace agd {

namespace {

thread_local bool offered  = false;
thread_local bool not_read = false;

const char * output_name() {
    return assumption::broken(assumption::output_name) ? "renamed" : "result_output";
}

} // namespace

bool logits_product::matches(const ggml_tensor * op) {
    if (std::strcmp(op->name, output_name()) != 0) {
        return false;
    }
    offered = true;
    if (op->op != GGML_OP_MUL_MAT || op->type != GGML_TYPE_F32 || (op->flags & GGML_TENSOR_FLAG_OUTPUT) == 0) {
        return false;
    }
    const ggml_tensor *weights = op->src[0], *in = op->src[1];
    return weights->buffer != nullptr &&
           ggml_backend_buffer_get_usage(weights->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
           ggml_is_contiguous(in) && ggml_is_contiguous(op);
}

bool logits_product::take_offered() {
    return std::exchange(offered, false);
}

bool logits_product::take_unread() {
    return std::exchange(not_read, false);
}

bool logits_product::init() {
    cpu.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    return cpu != nullptr;
}

void logits_product::set_threads(int n) {
    const auto reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu.get()));
    const auto set = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
    if (set != nullptr) {
        set(cpu.get(), n);
    }
}

ggml_status logits_product::run(ggml_tensor * node) {
    ggml_cgraph graph{};
    graph.n_nodes = 1;
    graph.nodes   = &node;
    try {
        return ggml_backend_graph_compute(cpu.get(), &graph);
    } catch (const std::bad_alloc &) { // which ggml does not catch
        return GGML_STATUS_ALLOC_FAILED;
    }
}

ggml_status logits_product::compute(ggml_cgraph * graph, int i) {
    ggml_tensor * node = graph->nodes[i];
    deferred           = nullptr;
    not_read           = false; // of an evaluation that failed
    if (ggml_node_get_use_count(graph, i) > 0) {
        return run(node);
    }
    // Later nodes may take the memory of the input.
    const auto * in = static_cast<const char *>(node->src[1]->data);
    input.assign(in, in + ggml_nbytes(node->src[1]));
    deferred = node;
    not_read = ggml_nelements(node) > 0; // nobody reads what is empty
    return GGML_STATUS_SUCCESS;
}

void logits_product::get(const ggml_tensor * t, void * data, size_t offset, size_t size) {
    if (t != deferred || assumption::broken(assumption::output_read)) {
        ggml_backend_tensor_get(t, data, offset, size);
        return;
    }
    not_read          = false;
    const bool  whole = offset == 0 && size == ggml_nbytes(t);
    ggml_tensor in = *t->src[1], out = *t;
    in.data    = input.data();
    out.src[1] = &in;
    if (whole) {
        out.data = data;
    }
    if (run(&out) != GGML_STATUS_SUCCESS) { // no memory: nobody takes NaN for a logit
        std::fill_n(static_cast<float *>(out.data), ggml_nelements(&out), std::numeric_limits<float>::quiet_NaN());
    }
    if (!whole) {
        deferred = nullptr; // it is computed now
        ggml_backend_tensor_get(t, data, offset, size);
    }
}

} // namespace agd
