// What llama.cpp's tokenizer lacks to split texts as the library tokenizers 0.23 does. unicode.cpp includes it.
// - Unicode 16: its tables are those of Unicode 15.1, and have no general categories of letters.
// - The pattern of o200k (pre-tokenizer gpt-4o), which a regular expression only approximates: letters with marks, and
//   capitals beyond ASCII.
#pragma once

#include "unicode.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace agentd_unicode {

struct range {
    uint32_t first, last;
};

// Code points of Unicode 16.
inline constexpr range letters[] = {
    { 0x1c89, 0x1c8a }, { 0xa7cb, 0xa7cd }, { 0xa7da, 0xa7dc }, { 0x105c0, 0x105f3 }, { 0x10d4a, 0x10d65 },
    { 0x10d6f, 0x10d85 }, { 0x10ec2, 0x10ec4 }, { 0x11380, 0x11389 }, { 0x1138b, 0x1138b }, { 0x1138e, 0x1138e },
    { 0x11390, 0x113b5 }, { 0x113b7, 0x113b7 }, { 0x113d1, 0x113d1 }, { 0x113d3, 0x113d3 }, { 0x11bc0, 0x11be0 },
    { 0x13460, 0x143fa }, { 0x16100, 0x1611d }, { 0x16d40, 0x16d6c }, { 0x18cff, 0x18cff }, { 0x1e5d0, 0x1e5ed },
    { 0x1e5f0, 0x1e5f0 },
};

inline constexpr range numbers[] = {
    { 0x10d40, 0x10d49 }, { 0x116d0, 0x116e3 }, { 0x11bf0, 0x11bf9 }, { 0x16130, 0x16139 }, { 0x16d70, 0x16d79 },
    { 0x1ccf0, 0x1ccf9 }, { 0x1e5f1, 0x1e5fa },
};

inline constexpr range marks[] = {
    { 0x897, 0x897 }, { 0x10d69, 0x10d6d }, { 0x10efc, 0x10efc }, { 0x113b8, 0x113c0 }, { 0x113c2, 0x113c2 },
    { 0x113c5, 0x113c5 }, { 0x113c7, 0x113ca }, { 0x113cc, 0x113d0 }, { 0x113d2, 0x113d2 }, { 0x113e1, 0x113e2 },
    { 0x11f5a, 0x11f5a }, { 0x1611e, 0x1612f }, { 0x1e5ee, 0x1e5ef },
};

inline constexpr range upper[] = {
    { 0x130, 0x130 }, { 0x1c5, 0x1c5 }, { 0x1c8, 0x1c8 }, { 0x1cb, 0x1cb }, { 0x1f2, 0x1f2 }, { 0x3d2, 0x3d4 },
    { 0x3f4, 0x3f4 }, { 0x1c89, 0x1c89 }, { 0x1e9e, 0x1e9e }, { 0x2102, 0x2102 }, { 0x2107, 0x2107 },
    { 0x210b, 0x210d }, { 0x2110, 0x2112 }, { 0x2115, 0x2115 }, { 0x2119, 0x211d }, { 0x2124, 0x2124 },
    { 0x2126, 0x2126 }, { 0x2128, 0x2128 }, { 0x212a, 0x212d }, { 0x2130, 0x2131 }, { 0x2133, 0x2133 },
    { 0x213e, 0x213f }, { 0x2145, 0x2145 }, { 0xa7cb, 0xa7cc }, { 0xa7da, 0xa7da }, { 0xa7dc, 0xa7dc },
    { 0x10d50, 0x10d65 }, { 0x1d400, 0x1d419 }, { 0x1d434, 0x1d44d }, { 0x1d468, 0x1d481 }, { 0x1d49c, 0x1d49c },
    { 0x1d49e, 0x1d49f }, { 0x1d4a2, 0x1d4a2 }, { 0x1d4a5, 0x1d4a6 }, { 0x1d4a9, 0x1d4ac }, { 0x1d4ae, 0x1d4b5 },
    { 0x1d4d0, 0x1d4e9 }, { 0x1d504, 0x1d505 }, { 0x1d507, 0x1d50a }, { 0x1d50d, 0x1d514 }, { 0x1d516, 0x1d51c },
    { 0x1d538, 0x1d539 }, { 0x1d53b, 0x1d53e }, { 0x1d540, 0x1d544 }, { 0x1d546, 0x1d546 }, { 0x1d54a, 0x1d550 },
    { 0x1d56c, 0x1d585 }, { 0x1d5a0, 0x1d5b9 }, { 0x1d5d4, 0x1d5ed }, { 0x1d608, 0x1d621 }, { 0x1d63c, 0x1d655 },
    { 0x1d670, 0x1d689 }, { 0x1d6a8, 0x1d6c0 }, { 0x1d6e2, 0x1d6fa }, { 0x1d71c, 0x1d734 }, { 0x1d756, 0x1d76e },
    { 0x1d790, 0x1d7a8 }, { 0x1d7ca, 0x1d7ca },
};

inline constexpr range lower[] = {
    { 0xb5, 0xb5 }, { 0x131, 0x131 }, { 0x138, 0x138 }, { 0x149, 0x149 }, { 0x17f, 0x17f }, { 0x18d, 0x18d },
    { 0x19b, 0x19b }, { 0x1aa, 0x1ab }, { 0x1ba, 0x1ba }, { 0x1be, 0x1be }, { 0x1f0, 0x1f0 }, { 0x221, 0x221 },
    { 0x234, 0x239 }, { 0x255, 0x255 }, { 0x258, 0x258 }, { 0x25a, 0x25a }, { 0x25d, 0x25f }, { 0x262, 0x262 },
    { 0x264, 0x264 }, { 0x267, 0x267 }, { 0x26d, 0x26e }, { 0x270, 0x270 }, { 0x273, 0x274 }, { 0x276, 0x27c },
    { 0x27e, 0x27f }, { 0x281, 0x281 }, { 0x284, 0x286 }, { 0x28d, 0x291 }, { 0x293, 0x293 }, { 0x295, 0x29c },
    { 0x29f, 0x2af }, { 0x390, 0x390 }, { 0x3b0, 0x3b0 }, { 0x3c2, 0x3c2 }, { 0x3d0, 0x3d1 }, { 0x3d5, 0x3d6 },
    { 0x3f0, 0x3f1 }, { 0x3f5, 0x3f5 }, { 0x3fc, 0x3fc }, { 0x560, 0x560 }, { 0x587, 0x588 }, { 0x1c80, 0x1c88 },
    { 0x1c8a, 0x1c8a }, { 0x1d00, 0x1d2b }, { 0x1d6b, 0x1d77 }, { 0x1d7a, 0x1d7c }, { 0x1d7e, 0x1d8d },
    { 0x1d8f, 0x1d9a }, { 0x1e96, 0x1e9d }, { 0x1e9f, 0x1e9f }, { 0x1f50, 0x1f50 }, { 0x1f52, 0x1f52 },
    { 0x1f54, 0x1f54 }, { 0x1f56, 0x1f56 }, { 0x1fb2, 0x1fb2 }, { 0x1fb4, 0x1fb4 }, { 0x1fb6, 0x1fb7 },
    { 0x1fbe, 0x1fbe }, { 0x1fc2, 0x1fc2 }, { 0x1fc4, 0x1fc4 }, { 0x1fc6, 0x1fc7 }, { 0x1fd2, 0x1fd3 },
    { 0x1fd6, 0x1fd7 }, { 0x1fe2, 0x1fe4 }, { 0x1fe6, 0x1fe7 }, { 0x1ff2, 0x1ff2 }, { 0x1ff4, 0x1ff4 },
    { 0x1ff6, 0x1ff7 }, { 0x210a, 0x210a }, { 0x210e, 0x210f }, { 0x2113, 0x2113 }, { 0x212f, 0x212f },
    { 0x2134, 0x2134 }, { 0x2139, 0x2139 }, { 0x213c, 0x213d }, { 0x2146, 0x2149 }, { 0x2c71, 0x2c71 },
    { 0x2c74, 0x2c74 }, { 0x2c77, 0x2c7b }, { 0x2ce4, 0x2ce4 }, { 0xa730, 0xa731 }, { 0xa771, 0xa778 },
    { 0xa78e, 0xa78e }, { 0xa795, 0xa795 }, { 0xa7af, 0xa7af }, { 0xa7cd, 0xa7cd }, { 0xa7d3, 0xa7d3 },
    { 0xa7d5, 0xa7d5 }, { 0xa7db, 0xa7db }, { 0xa7fa, 0xa7fa }, { 0xab30, 0xab52 }, { 0xab54, 0xab5a },
    { 0xab60, 0xab68 }, { 0xfb00, 0xfb06 }, { 0xfb13, 0xfb17 }, { 0x10d70, 0x10d85 }, { 0x1d41a, 0x1d433 },
    { 0x1d44e, 0x1d454 }, { 0x1d456, 0x1d467 }, { 0x1d482, 0x1d49b }, { 0x1d4b6, 0x1d4b9 }, { 0x1d4bb, 0x1d4bb },
    { 0x1d4bd, 0x1d4c3 }, { 0x1d4c5, 0x1d4cf }, { 0x1d4ea, 0x1d503 }, { 0x1d51e, 0x1d537 }, { 0x1d552, 0x1d56b },
    { 0x1d586, 0x1d59f }, { 0x1d5ba, 0x1d5d3 }, { 0x1d5ee, 0x1d607 }, { 0x1d622, 0x1d63b }, { 0x1d656, 0x1d66f },
    { 0x1d68a, 0x1d6a5 }, { 0x1d6c2, 0x1d6da }, { 0x1d6dc, 0x1d6e1 }, { 0x1d6fc, 0x1d714 }, { 0x1d716, 0x1d71b },
    { 0x1d736, 0x1d74e }, { 0x1d750, 0x1d755 }, { 0x1d770, 0x1d788 }, { 0x1d78a, 0x1d78f }, { 0x1d7aa, 0x1d7c2 },
    { 0x1d7c4, 0x1d7c9 }, { 0x1d7cb, 0x1d7cb }, { 0x1df00, 0x1df09 }, { 0x1df0b, 0x1df1e }, { 0x1df25, 0x1df2a },
};

// Set the flags that the tables above name. A letter is uppercase if its category is Lu or Lt, and lowercase if it is Ll.
inline void complete(std::vector<unicode_cpt_flags> & flags) {
    const auto each = [&flags](const auto & table, const auto & set) {
        for (const auto & r : table) {
            for (uint32_t c = r.first; c <= r.last; c++) {
                set(flags[c]);
                flags[c].is_undefined = 0;
            }
        }
    };
    each(letters, [](unicode_cpt_flags & f) { f.is_letter = 1; });
    each(numbers, [](unicode_cpt_flags & f) { f.is_number = 1; });
    each(marks, [](unicode_cpt_flags & f) { f.is_accent_mark = 1; });
    each(upper, [](unicode_cpt_flags & f) { f.is_uppercase = 1; });
    each(lower, [](unicode_cpt_flags & f) { f.is_lowercase = 1; });
}

// Without regard to case, a long s is an s.
inline uint32_t folded(uint32_t c) { return c == 0x17f ? 's' : unicode_tolower(c); }

inline const char * const o200k =
    "[^\\r\\n\\p{L}\\p{N}]?((?=[\\p{L}])([^a-z]))*((?=[\\p{L}])([^A-Z]))+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|"
    "'[dD])?|[^\\r\\n\\p{L}\\p{N}]?((?=[\\p{L}])([^a-z]))+((?=[\\p{L}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|"
    "'[lL][lL]|'[dD])?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// Splits text at the matches of o200k's pattern, whose classes of letters are here
//   large = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], small = [\p{Ll}\p{Lm}\p{Lo}\p{M}], other = [^\r\n\p{L}\p{N}]:
//   other? large* small+ 's? | other? large+ small* 's? | \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// Each alternative is tried in turn, as a backtracking engine does.
class splitter {
  public:
    explicit splitter(const std::vector<uint32_t> & text) : text(text) {}

    // The length of the match that begins at a code point; at least 1.
    size_t length(size_t at) const {
        for (const auto alternative : { &splitter::small_word, &splitter::large_word }) {
            if (const size_t end = (this->*alternative)(at)) {
                return contraction(end) - at;
            }
        }
        size_t end = at;
        if (number(at)) {
            while (end < at + 3 && number(end)) {
                end++;
            }
            return end - at;
        }
        const size_t from = at + (point(at) == ' ');
        for (end = from; end < text.size() && !space(end) && !letter(end) && !number(end);) {
            end++;
        }
        if (end > from) {
            while (line(end) || point(end) == '/') {
                end++;
            }
            return end - at;
        }
        size_t lines = 0;
        for (end = at; space(end); end++) {
            if (line(end)) {
                lines = end + 1;
            }
        }
        if (lines > 0) {
            return lines - at;
        }
        return end - at > 1 && end < text.size() ? end - at - 1 : end > at ? end - at : 1;
    }

  private:
    const std::vector<uint32_t> & text;

    uint32_t point(size_t i) const { return i < text.size() ? text[i] : 0; }
    unicode_cpt_flags flags(size_t i) const { return i < text.size() ? unicode_cpt_flags_from_cpt(text[i]) : unicode_cpt_flags{}; }
    bool letter(size_t i) const { return flags(i).is_letter; }
    bool number(size_t i) const { return flags(i).is_number; }
    bool space(size_t i) const { return flags(i).is_whitespace; }
    bool line(size_t i) const { return point(i) == '\r' || point(i) == '\n'; }
    bool large(size_t i) const { const auto f = flags(i); return f.is_accent_mark || (f.is_letter && !f.is_lowercase); }
    bool small(size_t i) const { const auto f = flags(i); return f.is_accent_mark || (f.is_letter && !f.is_uppercase); }
    bool other(size_t i) const { return i < text.size() && !line(i) && !letter(i) && !number(i); }

    // The end of other? large* small+, 0 without a match.
    size_t small_word(size_t at) const {
        const size_t end = other(at) ? small_from(at + 1) : 0;
        return end ? end : small_from(at);
    }

    size_t small_from(size_t at) const {
        size_t end = at, last = 0; // the last of large* that is small too
        bool   both = false;
        for (; large(end); end++) {
            if (small(end)) {
                last = end;
                both = true;
            }
        }
        if (!small(end)) {
            return both ? last + 1 : 0;
        }
        while (small(end)) {
            end++;
        }
        return end;
    }

    // The end of other? large+ small*, 0 without a match. No small one comes after the large ones, see small_word.
    size_t large_word(size_t at) const {
        const size_t end = other(at) ? large_from(at + 1) : 0;
        return end ? end : large_from(at);
    }

    size_t large_from(size_t at) const {
        size_t end = at;
        while (large(end)) {
            end++;
        }
        return end > at ? end : 0;
    }

    // The end of (?i:'s|'t|'re|'ve|'m|'ll|'d)?.
    size_t contraction(size_t at) const {
        if (point(at) != '\'') {
            return at;
        }
        const uint32_t first = folded(point(at + 1)), second = folded(point(at + 2));
        switch (first) {
            case 's':
            case 't':
            case 'm':
            case 'd':
                return at + 2;
            case 'r':
            case 'v':
                return second == 'e' ? at + 3 : at;
            case 'l':
                return second == 'l' ? at + 3 : at;
        }
        return at;
    }
};

// The lengths of the parts of a text that is in parts of the given lengths already.
inline std::vector<size_t> split_o200k(const std::vector<uint32_t> & points, const std::vector<size_t> & lengths) {
    std::vector<size_t> list;
    size_t begin = 0;
    for (const size_t length : lengths) {
        const std::vector<uint32_t> part(points.begin() + begin, points.begin() + begin + length);
        const splitter split(part);
        for (size_t at = 0; at < part.size(); at += list.back()) {
            list.push_back(split.length(at));
        }
        begin += length;
    }
    return list;
}

} // namespace agentd_unicode
