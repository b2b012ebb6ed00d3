#include "assumptions.h"

#include "api.h"

#include <utility>

namespace agd::assumption {

std::atomic<int> broken_for_test{ none };

namespace {

thread_local const char * failure = nullptr;

} // namespace

void fail(const char * text) {
    if (failure == nullptr) {
        failure = text;
    }
}

const char * take_failure() {
    return std::exchange(failure, nullptr);
}

} // namespace agd::assumption

extern "C" void agd_break_assumption(int kind) {
    agd::assumption::broken_for_test = kind;
}
