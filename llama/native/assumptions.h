// What agentd relies on in llama.cpp beyond its public interface. README.md lists all of it. Each thing that
// the compiler can't check is checked when a context is made or computes.
#pragma once

#include <atomic>

namespace agd::assumption {

// Tests break one of these on purpose to see the refusal.
enum kind {
    none,
    mask_layout,    // libllama was compiled with our layout of masks
    output_name,    // the node of the logits is named result_output
    graph_hook,     // the patch calls our hook before a graph's inputs are set
    thread_call,    // threads are set after that and before each evaluation
    output_read,    // logits are read through the backend
    grammar_element // the types of grammar elements
};

extern std::atomic<int> broken_for_test;

inline bool broken(kind k) {
    return broken_for_test.load(std::memory_order_relaxed) == k;
}

// Notes on this thread that an assumption does not hold. The first text counts, and must stay valid.
void fail(const char * text);

// Returns what was noted on this thread, or null, and forgets it.
const char * take_failure();

} // namespace agd::assumption
