// What the C++ tests share: a check that counts its failures, and random numbers from a fixed seed.
#pragma once

#include <cstdio>
#include <random>

namespace testing {

inline int failures = 0;

inline int result() {
    std::printf(failures == 0 ? "ok\n" : "%d checks failed\n", failures);
    return failures == 0 ? 0 : 1;
}

} // namespace testing

// CHECK(condition, format, arguments...) prints the message if the condition is false.
#define CHECK(condition, ...)                                           \
    do {                                                                \
        if (!(condition) && ++testing::failures <= 20) {                \
            std::printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            std::printf(__VA_ARGS__);                                   \
            std::printf("\n");                                          \
        }                                                               \
    } while (false)
