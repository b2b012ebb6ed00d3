// The product that makes the logits, computed when they are read.
//
// llama.cpp computes logits into the memory of its graph. Then one thread copies them to where llama_get_logits
// finds them. With 150,000 logits for each row and a small model that copy is a tenth to a fifth of a step. So
// this class keeps only the product's input, and computes the product into the memory of the copy.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <memory>
#include <vector>

struct ggml_cgraph;

namespace agd {

class logits_product {
  public:
    // Whether op is the product of the logits and may be deferred: a product of weights, marked as an output,
    // with the name of the model's last node.
    static bool matches(const ggml_tensor * op);

    // Whether a model's last node was offered on this thread since the last call.
    static bool take_offered();

    // False if ggml has no backend for the CPU.
    bool init();
    void set_threads(int n);
    // Defers the i-th node, or computes it where other nodes read it.
    ggml_status compute(ggml_cgraph * graph, int i);
    // Does what ggml_backend_tensor_get does, for any tensor of the backend.
    void get(const ggml_tensor * t, void * data, size_t offset, size_t size);

    // Whether a product was deferred on this thread and not read since the last call.
    static bool take_unread();

  private:
    struct backend_deleter {
        void operator()(ggml_backend_t b) const { ggml_backend_free(b); }
    };

    ggml_status run(ggml_tensor * node);

    std::unique_ptr<ggml_backend, backend_deleter> cpu;                // with ggml's own kernels
    const ggml_tensor *                            deferred = nullptr; // or null
    std::vector<char>                              input;              // of the deferred node
};

} // namespace agd
