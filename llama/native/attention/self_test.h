// A small attention and a small product of logits, computed through ggml's public interface and compared with
// plain loops. It notices a ggml whose tables of functions, operands or block layouts are others.
#pragma once

#include "ggml-backend.h"

#include <string>

namespace agd::attention {

// Set while the self test runs on this thread.
extern thread_local bool self_testing;

// Returns what is wrong with the device, or "". Takes less than a millisecond.
std::string self_test(ggml_backend_dev_t device);

} // namespace agd::attention
