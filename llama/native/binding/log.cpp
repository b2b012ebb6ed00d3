// Logging and backend loading.
#include "api.h"
#include "binding/internal.h"

#include <dlfcn.h>

#include "ggml-backend.h"
#include "log.h"

namespace {

agd_log_sink sink = nullptr; // set once, before llama.cpp logs

constexpr size_t max_error_bytes = 1000; // enough for the chain of causes of one failed load

thread_local std::string pending;       // a line still without its newline
thread_local int         pending_level = GGML_LOG_LEVEL_INFO;
thread_local std::string errors;

void flush_line() {
    while (!pending.empty() && (pending.back() == '\n' || pending.back() == ' ')) {
        pending.pop_back();
    }
    if (!pending.empty()) {
        if (pending_level == GGML_LOG_LEVEL_ERROR && errors.size() < max_error_bytes) {
            errors += (errors.empty() ? "" : "; ") + pending;
        }
        // The caller of agd_backend_load reports these.
        const bool reported = pending_level == GGML_LOG_LEVEL_ERROR && pending.rfind("load_backend:", 0) == 0;
        sink(reported ? GGML_LOG_LEVEL_DEBUG : pending_level, pending.data(), pending.size());
    }
    pending.clear();
}

void on_log(ggml_log_level level, const char * text, void *) noexcept {
    try {
        if (level != GGML_LOG_LEVEL_CONT) {
            flush_line();
            pending_level = level;
        }
        pending += text;
        if (!pending.empty() && pending.back() == '\n') {
            flush_line();
        }
    } catch (...) { // out of memory: a lost log line
        pending.clear();
    }
}

} // namespace

namespace agd {

void log_errors_reset() {
    errors.clear();
}

std::string log_errors() {
    flush_line();
    return errors.empty() ? "no reason given" : errors;
}

} // namespace agd

extern "C" void agd_log_install(agd_log_sink to) {
    sink = to;
    llama_log_set(on_log, nullptr);
    common_log_set_verbosity_thold(-1);
}

extern "C" const char * agd_lib_file(void) {
    Dl_info info;
    return dladdr(reinterpret_cast<const void *>(&llama_backend_init), &info) != 0 ? info.dli_fname : nullptr;
}

extern "C" bool agd_backend_load(const char * path, char ** err) {
    return agd::guard(err, false, [&] {
        agd::log_errors_reset();
        const bool loaded = ggml_backend_load(path) != nullptr;
        if (!loaded) {
            agd::set(err, agd::log_errors());
        }
        return loaded;
    });
}

extern "C" int agd_backend_score(const char * path, char ** err) {
    return agd::guard(err, -1, [&] {
        void * handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            agd::set(err, dlerror());
            return -1;
        }
        auto      score = reinterpret_cast<int (*)(void)>(dlsym(handle, "ggml_backend_score"));
        const int s     = score == nullptr ? -1 : score();
        if (score == nullptr) {
            agd::set(err, "it exports no ggml_backend_score");
        }
        dlclose(handle);
        return s;
    });
}
