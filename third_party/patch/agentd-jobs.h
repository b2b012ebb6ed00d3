// How threads share the groups of rows of weights of a product.
#ifndef AGENTD_JOBS_H
#define AGENTD_JOBS_H

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"

#include <algorithm>
#include <cstdint>

namespace {
namespace agentd_products {

// How much work is done where a job begins. The first half of the work is one job for each thread, as are the next
// quarter and the rest. So a thread reads long runs of weights, which is up to a fifth faster with few rows, and the last
// jobs are short.
inline int64_t done_before(int64_t job, int64_t threads, int64_t work) {
    const int64_t parts[] = { 0, work / 2, work / 2 + work / 4, work, work };
    const int64_t part    = std::min<int64_t>(job / threads, 3);
    return parts[part] + (parts[part + 1] - parts[part]) * (job % threads) / threads;
}

// Calls f for each group that this thread computes, with the one that it computes next. group_at gives the group where
// some of the work is done. Few groups are a job each. Thread 0 has set the threadpool's chunk to the number of threads.
template <class At, class F> void each_group(const ggml_compute_params * params, int64_t work, At group_at, F f) {
    const int64_t threads = params->nth, groups = group_at(work);
    const auto    begin   = [&](int64_t job) {
        return groups < 2 * threads ? std::min(job, groups) : group_at(done_before(job, threads, work));
    };
    for (int64_t job = params->ith; begin(job) < groups; job = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t end = begin(job + 1);
        for (int64_t i = begin(job); i < end; i++) {
            f(i, i + 1 < end ? i + 1 : begin(job + threads));
        }
    }
}

} // namespace agentd_products
} // namespace

#endif // AGENTD_JOBS_H
