// repr() of Python, for values that a chat template prints.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace agentd {

// A number as Python writes it: the fewest digits that read back as the same, with an exponent outside of 1e-4..1e16.
inline std::string float_repr(double v) {
    char       buf[40];
    const auto end = std::to_chars(buf, buf + sizeof(buf), v, std::chars_format::scientific).ptr;
    std::string text(buf, end);
    const auto  e = text.find('e');
    if (e == std::string::npos) {
        return text; // inf, nan
    }
    const int exponent = std::atoi(text.c_str() + e + 1);
    if (exponent < -4 || exponent >= 16) {
        return text;
    }
    text.assign(buf, std::to_chars(buf, buf + sizeof(buf), v, std::chars_format::fixed).ptr);
    return text.find('.') == std::string::npos ? text + ".0" : text;
}

// Whether Python's repr() escapes a code point: controls, separators, formats, surrogates and private use.
inline bool escaped_in_repr(uint32_t c) {
    static constexpr uint32_t ranges[][2] = {
        { 0x00, 0x1f },     { 0x7f, 0xa0 },     { 0xad, 0xad },     { 0x600, 0x605 },   { 0x61c, 0x61c },
        { 0x6dd, 0x6dd },   { 0x70f, 0x70f },   { 0x1680, 0x1680 }, { 0x180e, 0x180e }, { 0x2000, 0x200f },
        { 0x2028, 0x202f }, { 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0xd800, 0xf8ff }, { 0xfeff, 0xfeff },
        { 0xfff0, 0xfffb }, { 0xfffe, 0xffff }, { 0xe0000, 0xe00ff }, { 0xe01f0, 0x10ffff },
    };
    for (const auto & r : ranges) {
        if (c >= r[0] && c <= r[1]) {
            return true;
        }
    }
    return false;
}

// Reads the code point at text[i], and how many bytes it has; a byte that begins none is one, with its own value.
inline uint32_t code_point(const std::string & text, size_t i, size_t & size) {
    const unsigned char first = text[i];
    size                      = first < 0x80 || (first & 0xc0) == 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 1 || i + size > text.size()) {
        size = 1;
        return first;
    }
    uint32_t c = first & (0x7f >> size);
    for (size_t k = 1; k < size; k++) {
        const unsigned char next = text[i + k];
        if ((next & 0xc0) != 0x80) {
            size = 1;
            return first;
        }
        c = c << 6 | (next & 0x3f);
    }
    return c;
}

inline void append_repr(std::string & out, uint32_t c) {
    switch (c) {
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    char buf[12];
    std::snprintf(buf, sizeof(buf), c <= 0xff ? "\\x%02x" : c <= 0xffff ? "\\u%04x" : "\\U%08x", static_cast<unsigned>(c));
    out += buf;
}

// A string as Python writes it: in single quotes, unless it has some and no double ones.
inline std::string string_repr(const std::string & text) {
    const bool  twice = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
    const char  quote = twice ? '"' : '\'';
    std::string out(1, quote);
    for (size_t i = 0, size = 0; i < text.size(); i += size) {
        const uint32_t c = code_point(text, i, size);
        if (c == static_cast<unsigned char>(quote) || c == '\\') {
            out += '\\';
            out += text[i];
        } else if (escaped_in_repr(c)) {
            append_repr(out, c);
        } else {
            out.append(text, i, size);
        }
    }
    return out + quote;
}

}  // namespace agentd
