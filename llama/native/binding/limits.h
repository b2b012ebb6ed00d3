// Limits of a computation that somebody else wrote, such as a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace agd {

// What a computation may use.
struct limits {
    int64_t cpu_ms; // of its thread's processor time
    size_t  bytes;  // of memory that it holds at a time
    size_t  stack;  // bytes
};

enum class limit { none, time, memory, depth };

// Thrown where a limit is reached. An interpreter hands it on as it is, since its base is not std::exception.
struct limit_reached {
    limit which;
};

// Runs f on a thread whose stack is larger than any limit's, so that what f has made can also be destroyed by recursion,
// and waits for it. An exception of f goes on here. Throws std::runtime_error if there is no thread.
void on_large_stack(const std::function<void()> & f);

// While one lives, this thread's allocations with operator new throw limit_reached when a limit is exceeded; also each
// one after that, since code between here and there may catch everything.
class budget {
    limits       allowed;
    const char * bottom;
    int64_t      live    = 0; // bytes
    uint64_t     count   = 0; // of allocations
    limit        reached = limit::none;
    budget *     outer;

  public:
    explicit budget(const limits & allowed);
    ~budget();
    budget(const budget &)             = delete;
    budget & operator=(const budget &) = delete;

    // Throws if a limit was reached and something caught the exception.
    void check() const;

    void want(size_t size); // before an allocation
    void allocated(size_t size) { live += static_cast<int64_t>(size); }
    void freed(size_t size) { live -= static_cast<int64_t>(size); }
};

} // namespace agd
