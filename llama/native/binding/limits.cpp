// Limits by replacing operator new: whatever keeps llama-common's interpreter busy allocates.
#include "limits.h"

#include <malloc.h>
#include <pthread.h>

#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>

namespace {

// The stack of on_large_stack. Pages that nobody touches take no memory. Destroying a value that is nested as deep as the
// memory limit allows takes most of it.
constexpr size_t large_stack = size_t(512) << 20;

// The clock is a system call. Between two of them are so many allocations.
constexpr uint64_t clock_interval = 64;

thread_local agd::budget * current = nullptr;

int64_t thread_ms() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

struct job {
    const std::function<void()> & f;
    std::exception_ptr            error;
};

void * run(void * arg) {
    auto * j = static_cast<job *>(arg);
    try {
        j->f();
    } catch (...) {
        j->error = std::current_exception();
    }
    return nullptr;
}

void * allocate(size_t size) {
    for (;;) {
        if (void * p = std::malloc(size == 0 ? 1 : size)) {
            return p;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            throw std::bad_alloc();
        }
        handler();
    }
}

} // namespace

namespace agd {

void on_large_stack(const std::function<void()> & f) {
    job            j{ f, nullptr };
    pthread_t      thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, large_stack);
    const int failed = pthread_create(&thread, &attr, run, &j);
    pthread_attr_destroy(&attr);
    if (failed != 0) {
        throw std::runtime_error(
            "the system gives no thread with a stack of 512 MiB; raise its limits of address space and threads");
    }
    pthread_join(thread, nullptr);
    if (j.error != nullptr) {
        std::rethrow_exception(j.error);
    }
}

budget::budget(const limits & given)
    : allowed(given), bottom(static_cast<const char *>(__builtin_frame_address(0))), outer(current) {
    allowed.cpu_ms += thread_ms();
    current = this;
}

budget::~budget() {
    current = outer;
}

void budget::check() const {
    if (reached != limit::none) {
        throw limit_reached{ reached };
    }
}

void budget::want(size_t size) {
    if (reached == limit::none) {
        if (live + static_cast<int64_t>(size) > static_cast<int64_t>(allowed.bytes) || size > allowed.bytes) {
            reached = limit::memory;
        } else if (bottom - static_cast<const char *>(__builtin_frame_address(0)) >
                   static_cast<int64_t>(allowed.stack)) {
            reached = limit::depth;
        } else if (++count % clock_interval == 0 && thread_ms() > allowed.cpu_ms) {
            reached = limit::time;
        }
    }
    if (reached != limit::none && std::uncaught_exceptions() == 0) { // destructors may allocate
        throw limit_reached{ reached };
    }
}

} // namespace agd

void * operator new(size_t size) {
    agd::budget * b = current;
    if (b == nullptr) {
        return allocate(size);
    }
    b->want(size);
    void * p = allocate(size);
    b->allocated(malloc_usable_size(p));
    return p;
}

void operator delete(void * p) noexcept {
    if (current != nullptr && p != nullptr) {
        current->freed(malloc_usable_size(p));
    }
    std::free(p);
}

void operator delete(void * p, size_t) noexcept {
    operator delete(p);
}
