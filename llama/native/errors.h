// How errors leave C++: as texts that the caller frees. Nothing declared in api.h lets an exception out.
#pragma once

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

namespace agd {

// A malloc'd copy of a text, or null without memory.
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

// Runs f. An exception becomes an error text and the fallback value.
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
