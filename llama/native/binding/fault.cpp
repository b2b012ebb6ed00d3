// Turns a GGML_ABORT and an exception of the Vulkan backend into an error. A failed device, or a file that holds what
// no model can have, ends the load or the call of a context instead of the process.
#include "api.h"
#include "binding/internal.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "ggml-backend.h"
#include "ggml.h"

namespace {

thread_local bool inside = false;

// A GPU was lost. Its driver answers every later call of the process with the same error, and an interrupted call may
// hold locks that a later free would wait for.
std::atomic<bool> gpu_failed{ false };

// A CUDA error reaches ggml_abort on the thread that called llama.cpp. The exception unwinds from there to
// the binding. On another thread, one of OpenMP's for instance, nothing would catch it. ggml calls abort() there, and
// crash.cpp reports that with the message.
void on_abort(const char * message) {
    if (inside) {
        if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr) {
            gpu_failed = true;
        }
        throw agd::device_lost(message);
    }
    static char             kept[2048]; // of the first thread, with which the process ends
    static std::atomic_flag taken = ATOMIC_FLAG_INIT;
    if (!taken.test_and_set()) {
        std::snprintf(kept, sizeof(kept), "%s", message);
        agd::aborting(kept);
    }
}

// vulkan.hpp throws a std::system_error of this category, whose codes are VkResults. Its types are not used here, since
// the Vulkan headers are not part of the build.
constexpr const char * vulkan_category = "vk::Result";
constexpr int          lost_result     = -4; // VK_ERROR_DEVICE_LOST

struct test_category : std::error_category {
    const char * name() const noexcept override { return vulkan_category; }

    std::string message(int value) const override { return value == lost_result ? "ErrorDeviceLost" : "another"; }
};

} // namespace

namespace agd {

bool vulkan_failed(const std::exception & e) {
    const auto * error = dynamic_cast<const std::system_error *>(&e);
    if (error == nullptr || std::strcmp(error->code().category().name(), vulkan_category) != 0) {
        return false;
    }
    if (error->code().value() == lost_result) {
        gpu_failed = true;
    }
    return true;
}

void set_logged(char ** err) {
    const std::string log = log_errors();
    if (log.find("ErrorDeviceLost") != std::string::npos) {
        gpu_failed = true;
    }
    set(err, log);
}

void throw_vulkan(int result) {
    static const test_category category;
    throw std::system_error(result, category, "made to fail");
}

fault_scope::fault_scope() : outer(inside) {
    inside = true;
}

fault_scope::~fault_scope() {
    inside = outer;
}

} // namespace agd

extern "C" bool agd_gpu_failed(void) {
    return gpu_failed;
}

extern "C" void agd_faults_install(void) {
    ggml_set_abort_callback(on_abort);
}
