// The product that makes the logits, computed where they are read.
//
// Why: llama.cpp computes them into the memory of its graph and then copies them, with
// one thread, to where llama_get_logits has them. With 150,000 of them for each row and a
// small model that copy is a tenth to a fifth of a step. So only the product's input is kept
// when its turn comes, and the product is computed when the logits are asked for, into
// the memory that was to get the copy.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <memory>
#include <vector>

struct ggml_cgraph;

namespace agd {

class logits_product {
  public:
    // Whether op is such a product and can be put off: of weights, by its name the
    // model's last node, and marked to be read.
    static bool is(const ggml_tensor * op);

    // False, if ggml has no backend for the CPU.
    bool init();
    void set_threads(int n);
    // Puts off the i-th node, or computes it where other nodes go on with it.
    ggml_status compute(ggml_cgraph * graph, int i);
    // What ggml_backend_tensor_get would give, of any tensor of the backend.
    void get(const ggml_tensor * t, void * data, size_t offset, size_t size);

  private:
    struct backend_deleter {
        void operator()(ggml_backend_t b) const { ggml_backend_free(b); }
    };

    ggml_status run(ggml_tensor * node);

    std::unique_ptr<ggml_backend, backend_deleter> cpu;     // computes it, with the kernels of all others
    const ggml_tensor *                            waiting = nullptr; // put off, or null
    std::vector<char>                              input;   // of what waits
};

} // namespace agd
