// What the files of the binding share.
#pragma once

#include "errors.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "llama.h"

// Exported by libllama for its own tools; the C API has no way to ask for tensor types.
const std::vector<std::pair<std::string, struct ggml_tensor *>> & llama_internal_get_tensor_map(
    const struct llama_model * model);

namespace agd {

// Error lines that llama.cpp logged on this thread since log_errors_reset(). Its loaders return NULL and give
// the reason only in the log.
void        log_errors_reset();
std::string log_errors();

// ggml could not go on (GGML_ABORT): a device failed, or a file holds what no model can have.
struct device_lost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// While one lives, a GGML_ABORT on this thread throws device_lost.
class fault_scope {
    bool outer;

  public:
    fault_scope();
    ~fault_scope();
    fault_scope(const fault_scope &)             = delete;
    fault_scope & operator=(const fault_scope &) = delete;
};

// Whether an exception comes from a Vulkan call. It leaves the context of that device in an unknown state.
bool vulkan_failed(const std::exception & e);

// Sets an error text to what llama.cpp logged. Its loaders catch the exception of a lost Vulkan device: it is noted.
void set_logged(char ** err);

// For tests: throws what a Vulkan call with this VkResult throws.
[[noreturn]] void throw_vulkan(int result);

// Notes why abort() is about to be called, for the crash report. The text must stay valid. The first one counts.
void aborting(const char * why);

} // namespace agd
