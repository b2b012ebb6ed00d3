// Bounded integers as grammars. llama.cpp's converter admits some outside of bounds with
// three digits and more, and some with a leading zero.
#include "shim_internal.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace {

constexpr size_t max_digits = 16; // of integers without a bound on their side, as the converter's

std::string digits(size_t n) {
    return n == 0 ? "" : n == 1 ? " [0-9]" : " [0-9]{" + std::to_string(n) + "}";
}

// Numbers of as many digits as both bounds have, leading zeros included.
std::string same_length(const std::string & low, const std::string & high) {
    if (low == high) {
        return "\"" + low + "\"";
    }
    const size_t      rest     = low.size() - 1;
    const std::string low_rest = low.substr(1), high_rest = high.substr(1);
    if (low[0] == high[0]) {
        return std::string("\"") + low[0] + "\" (" + same_length(low_rest, high_rest) + ")";
    }
    const std::string zeros(rest, '0'), nines(rest, '9');
    char              first = low[0], last = high[0];
    std::string       out, tail;
    if (low_rest != zeros) {
        out = std::string("\"") + first++ + "\" (" + same_length(low_rest, nines) + ") | ";
    }
    if (high_rest != nines) {
        tail = std::string(" | \"") + last-- + "\" (" + same_length(zeros, high_rest) + ")";
    }
    if (first <= last) {
        out += std::string("[") + first + "-" + last + "]" + digits(rest);
    } else {
        out.resize(out.size() - 3); // the mark of a next one, which is the tail's
    }
    return out + tail;
}

// Numbers without a sign from low to high, or without an end.
std::string unsigned_range(uint64_t low, uint64_t high, bool endless) {
    std::string from = std::to_string(low), out;
    const auto  to   = std::to_string(high);
    while (endless || from.size() < to.size()) {
        out += same_length(from, std::string(from.size(), '9')) + " | ";
        if (endless) {
            const size_t least = from.size(), most = std::max(max_digits - 1, least);
            return out + "[1-9] [0-9]{" + std::to_string(least) + "," + std::to_string(most) + "}";
        }
        from = "1" + std::string(from.size(), '0');
    }
    return out + same_length(from, to);
}

} // namespace

std::string agd::integer_range(int64_t minimum, int64_t maximum) {
    // Magnitudes, as those of negative numbers need one more value.
    const auto  magnitude = [](int64_t x) { return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); };
    std::string out;
    if (minimum < 0) {
        const bool endless = minimum == std::numeric_limits<int64_t>::min();
        out = "\"-\" (" + unsigned_range(maximum < 0 ? magnitude(maximum) : 1, magnitude(minimum), endless) + ")";
    }
    if (maximum >= 0) {
        const bool endless = maximum == std::numeric_limits<int64_t>::max();
        out += (out.empty() ? "" : " | ") + unsigned_range(magnitude(std::max<int64_t>(minimum, 0)), magnitude(maximum), endless);
    }
    return out;
}
