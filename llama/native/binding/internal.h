// Shared by the shim's C++ files only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace agd {

inline char * dup(const std::string & s) {
    char * p = static_cast<char *>(std::malloc(s.size() + 1));
    if (p != nullptr) {
        std::memcpy(p, s.data(), s.size());
        p[s.size()] = '\0';
    }
    return p;
}

inline void set(char ** err, const std::string & text) {
    if (err != nullptr) {
        *err = dup(text);
    }
}

// Error lines that llama.cpp logged on this thread since log_errors_reset():
// its loaders return NULL and say why only in the log.
void        log_errors_reset();
std::string log_errors();

// ggml could not go on (GGML_ABORT), which is how a device's failure shows, and a file that holds what no model can have.
struct device_lost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// While one lives, what ggml can't go on from throws device_lost on this thread.
class fault_scope {
    bool outer;

  public:
    fault_scope();
    ~fault_scope();
    fault_scope(const fault_scope &)             = delete;
    fault_scope & operator=(const fault_scope &) = delete;
};

// Notes for the last line of the process why abort() will be called now. The text has to stay; the first one counts.
void aborting(const char * why);

// Runs f; an exception becomes an error text and the fallback value.
template <typename F, typename T> T guard(char ** err, T fallback, F f) noexcept {
    try {
        return f();
    } catch (const std::exception & e) {
        set(err, e.what());
    } catch (...) {
        set(err, "unknown C++ exception");
    }
    return fallback;
}

} // namespace agd
