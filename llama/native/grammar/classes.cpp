#include "grammar/classes.h"

#include "grammar/vocab.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace agd {

namespace {

// Whole tokens of up to so many characters are kept as sets: one for each number. Longer ones are few.
constexpr size_t counted = 12;

// Tables of a vocabulary, of about a megabyte each.
constexpr size_t max_tables = 16;

// A table stays for so many requests of others at least, so that grammars of many classes do not make the same
// tables over and over.
constexpr uint64_t kept_for = 1024;

// The character that text begins with, as far as it is there. Without a length it is not valid.
struct beginning {
    uint32_t value, length, have; // bytes
};

beginning begin_of(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    if (byte(0) < 0x80) {
        return { byte(0), 1, 1 };
    }
    const uint32_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
    if (byte(0) < 0xC2 || byte(0) > 0xF4) {
        return {};
    }
    uint32_t value = byte(0) & (0x7Fu >> length), have = 1;
    for (; have < length && have < text.size(); have++) {
        if ((byte(have) & 0xC0) != 0x80) {
            return {};
        }
        value = value << 6 | (byte(have) & 0x3F);
    }
    return { value, length, have };
}

// Whether text is a part of a character that is in the class however it is completed.
bool part_of(const char_class & chars, std::string_view text) {
    const beginning c = begin_of(text);
    if (c.have == c.length) {
        return false;
    }
    const auto [low, high] = completions(c.value, c.length - c.have, c.length);
    const auto range       = std::upper_bound(chars.begin(), chars.end(), std::make_pair(low, ~uint32_t(0)));
    return low <= high && range != chars.begin() && high <= std::prev(range)->second;
}

} // namespace

// --- classes -------------------------------------------------------------------

char_class normal(char_class ranges) {
    std::sort(ranges.begin(), ranges.end());
    char_class out;
    for (const auto & [low, high] : ranges) {
        if (low > high) {
            continue;
        }
        if (!out.empty() && low <= out.back().second + 1) {
            out.back().second = std::max(out.back().second, high);
        } else {
            out.emplace_back(low, high);
        }
    }
    return out;
}

char_class complement(const char_class & c) {
    char_class out;
    uint32_t   next = 0;
    for (const auto & [low, high] : c) {
        if (low > next) {
            out.emplace_back(next, low - 1);
        }
        next = high + 1;
    }
    if (next <= last_char) {
        out.emplace_back(next, last_char);
    }
    return out;
}

char_class common(const char_class & a, const char_class & b) {
    char_class out;
    for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end(); ++(i->second < j->second ? i : j)) {
        const uint32_t low = std::max(i->first, j->first), high = std::min(i->second, j->second);
        if (low <= high) {
            out.emplace_back(low, high);
        }
    }
    return out;
}

char_class without(const char_class & a, const char_class & b) {
    return common(a, complement(b));
}

bool contains(const char_class & c, uint32_t character) {
    const auto it = std::upper_bound(c.begin(), c.end(), std::make_pair(character, ~uint32_t(0)));
    return it != c.begin() && character <= std::prev(it)->second;
}

std::pair<uint32_t, size_t> first_character(std::string_view text) {
    constexpr uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const beginning    c       = begin_of(text);
    const bool         valid   = c.have == c.length && c.value >= least[c.length] && c.value <= last_char &&
                                 (c.value < 0xD800 || c.value >= 0xE000);
    return valid ? std::make_pair(c.value, size_t(c.length)) : std::make_pair(0u, size_t(0));
}

std::string utf8(uint32_t c) {
    std::string s;
    const auto  tail = [&](int shift) { s += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) {
        s += static_cast<char>(c);
    } else if (c < 0x800) {
        s += static_cast<char>(0xC0 | c >> 6);
        tail(0);
    } else if (c < 0x10000) {
        s += static_cast<char>(0xE0 | c >> 12);
        tail(6);
        tail(0);
    } else {
        s += static_cast<char>(0xF0 | c >> 18);
        tail(12);
        tail(6);
        tail(0);
    }
    return s;
}

std::pair<uint32_t, uint32_t> completions(uint32_t value, uint32_t remain, uint32_t length) {
    const uint32_t shift = 6 * remain;
    const uint32_t low   = std::max<uint32_t>(value << shift, length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80);
    const uint32_t high  = std::min<uint32_t>((value << shift) | ((1u << shift) - 1), last_char);
    return { low, low < 0xE000 && high >= 0xD800 ? 0xD7FF : high }; // surrogates are not characters
}

size_t weight(const char_class & c, const vocab_index & vocab) {
    std::array<bool, 256> begins = {};
    const auto            lead   = [](uint32_t c) { // the first byte of a character
        return c < 0x80 ? c : c < 0x800 ? 0xC0 | c >> 6 : c < 0x10000 ? 0xE0 | c >> 12 : 0xF0 | c >> 18;
    };
    for (const auto & [low, high] : c) {
        std::fill(begins.begin() + lead(low), begins.begin() + lead(high) + 1, true);
    }
    size_t sum = 0;
    for (size_t b = 0; b < begins.size(); b++) {
        sum += begins[b] ? vocab.pairs[(b + 1) << 8] - vocab.pairs[b << 8] : 0;
    }
    return sum;
}

// --- tables --------------------------------------------------------------------

class_table::class_table(const vocab_index & vocab, const char_class & chars) {
    std::array<bool, 128> ascii = {};
    for (uint32_t c = 0; c < ascii.size(); c++) {
        ascii[c] = contains(chars, c);
    }
    std::vector<std::pair<uint32_t, llama_token>> whole; // characters, token

    const auto rest = [&](const split & s) { return vocab.piece(vocab.order[s.index]).substr(s.bytes); };
    for (uint32_t i = 0; i < vocab.order.size(); i++) {
        const auto piece = vocab.piece(vocab.order[i]);
        uint32_t   n = 0, bytes = 0;
        while (bytes < piece.size()) {
            const auto [c, length] = first_character(piece.substr(bytes));
            if (length == 0 || n == 0xFFFF || !(c < ascii.size() ? ascii[c] : contains(chars, c))) {
                break;
            }
            n++;
            bytes += static_cast<uint32_t>(length);
        }
        const bool part = bytes < piece.size() && bytes <= 0xFFFF && n < 0xFFFF && part_of(chars, piece.substr(bytes));
        longest         = std::max<size_t>(longest, n + part);
        if (part) {
            indexed.push_back({ i, static_cast<uint16_t>(n), static_cast<uint16_t>(bytes), 0 });
        }
        if (part || bytes == piece.size()) {
            whole.emplace_back(n + part, vocab.order[i]);
        } else if (n > 0 && bytes <= 0xFFFF) {
            splits.push_back({ i, static_cast<uint16_t>(n), static_cast<uint16_t>(bytes), 0 });
        } else if (!outside.empty() && outside.back().end == i) {
            outside.back().end++;
        } else {
            outside.push_back({ i, i + 1 });
        }
    }
    until.assign(longest + 1, 0);
    for (const auto & [n, t] : whole) {
        until[n]++;
    }
    std::partial_sum(until.begin(), until.end(), until.begin());
    std::vector<uint32_t> at = until;
    tokens.resize(whole.size());
    for (const auto & [n, t] : whole) {
        tokens[--at[n]] = t;
    }
    all_whole.clear(vocab.is_eog.size());
    for (size_t n = 0; n <= longest; n++) {
        for (size_t i = n > 0 ? until[n - 1] : 0; i < until[n]; i++) {
            all_whole.add(tokens[i]);
        }
        if (n <= counted) {
            at_most.push_back(all_whole);
        }
    }

    std::sort(splits.begin(), splits.end(), [&](const split & a, const split & b) {
        const int order = rest(a).compare(rest(b));
        return order != 0 ? order < 0 : a.chars < b.chars;
    });
    for (uint32_t i = 0; i < splits.size(); i++) {
        const auto b = rest(splits[i]);
        if (i == 0 || rest(splits[i - 1])[0] != b[0]) {
            groups.push_back({ i, i, {} });
        } else {
            const auto a     = rest(splits[i - 1]);
            splits[i].common = static_cast<uint32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                                     a.begin());
        }
        groups.back().end = i + 1;
        groups.back().chars.push_back(splits[i].chars);
    }
    for (group & g : groups) {
        std::sort(g.chars.begin(), g.chars.end());
        g.chars.erase(std::unique(g.chars.begin(), g.chars.end()), g.chars.end());
        g.chars.shrink_to_fit();
    }
    indexed.insert(indexed.end(), splits.begin(), splits.end());
    std::sort(indexed.begin(), indexed.end(), [](const split & a, const split & b) { return a.index < b.index; });
}

void class_table::whole(size_t most, token_set & out) const {
    if (most < at_most.size()) {
        out = at_most[most];
        return;
    }
    out = all_whole;
    for (size_t i = most < until.size() ? until[most] : tokens.size(); i < tokens.size(); i++) {
        out.remove(tokens[i]);
    }
}

std::shared_ptr<const class_table> class_tables::get(const vocab_index & vocab, const char_class & chars) {
    std::shared_ptr<entry> made;
    {
        const std::lock_guard<std::mutex> lock(mutex);
        clock++;
        auto it = std::find_if(slots.begin(), slots.end(), [&](const slot & s) { return s.chars == chars; });
        if (it == slots.end()) {
            if (slots.size() < max_tables) {
                it = slots.insert(slots.end(), slot{});
            } else {
                it = std::min_element(slots.begin(), slots.end(),
                                      [](const slot & a, const slot & b) { return a.used < b.used; });
                if (clock - it->used < kept_for) {
                    return nullptr;
                }
            }
            *it = { chars, std::make_shared<entry>(), 0 };
        }
        it->used = clock;
        made     = it->made;
    }
    std::call_once(made->once, [&] { made->table = std::make_shared<const class_table>(vocab, chars); });
    return made->table;
}

} // namespace agd
