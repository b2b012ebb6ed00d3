// Compares the choice of tokens with plain loops over a softmax in doubles.
#include "sampling/chooser.h"
#include "testing/check.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>

using namespace agd;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// --- passes over logits ---------------------------------------------------------

void check_passes(const char * name, const std::vector<float> & logits, float factor) {
    const int32_t n    = static_cast<int32_t>(logits.size());
    float         want = -infinity;
    for (const float x : logits) {
        want = x > want ? x : want;
    }
    for (int version = 0; version < kernels.n; version++) {
        const kernel &     k    = kernels.list[version];
        const float        best = k.max_value(logits.data(), n);
        std::vector<float> weights(logits.size());
        CHECK(best == want, "%s, %d logits, version %d: the largest is %g, want %g", name, n, version, double(best),
              double(want));
        if (want == -infinity) {
            continue;
        }
        const float sum  = k.weigh(logits.data(), n, best, factor, weights.data());
        const float bare = k.weigh(logits.data(), n, best, factor, nullptr);
        CHECK(std::memcmp(&sum, &bare, sizeof sum) == 0, "%s: the sum is %g, without weights %g", name, double(sum),
              double(bare));
        double all = 0;
        for (int32_t i = 0; i < n; i++) {
            const double exponent = double((logits[i] - best) * factor);
            const double w        = exponent >= -126 ? std::exp2(exponent) : 0;
            all += w;
            CHECK(std::fabs(weights[i] - w) <= 4e-7 * w, "%s, version %d: logit %d, %g, weighs %g, want %g", name,
                  version, i, double(logits[i]), double(weights[i]), w);
        }
        CHECK(std::fabs(sum - all) <= 1e-5 * all, "%s, version %d: the sum is %g, want %g", name, version, double(sum),
              all);
    }
}

// Logits of a set of tokens, from any place in it on.
void keeping_is_exact() {
    std::mt19937          r(2);
    std::vector<uint64_t> bits(12);
    for (uint64_t & word : bits) {
        word = uint64_t(r()) << 32 | r();
    }
    bits[3] = 0;
    bits[5] = ~uint64_t(0);
    std::vector<float> x(600), kept(600);
    std::iota(x.begin(), x.end(), 1.0f);
    for (int version = 0; version < kernels.n; version++) {
        for (const size_t first : { 0, 1, 16, 37, 63, 64, 90 }) {
            for (const int32_t n : { 1, 15, 16, 33, 256, 600 }) {
                std::vector<float> want;
                for (int32_t i = 0; i < n; i += 16) {
                    const int32_t      end = std::min(i + 16, n);
                    std::vector<float> part;
                    for (int32_t j = i; j < end; j++) {
                        const size_t at = first + static_cast<size_t>(j);
                        part.push_back((bits[at / 64] >> (at % 64) & 1) != 0 ? x[j] : -infinity);
                    }
                    if (end - i < 16 || *std::max_element(part.begin(), part.end()) > -infinity) {
                        want.insert(want.end(), part.begin(), part.end());
                    }
                }
                const int32_t length = kernels.list[version].keep(x.data(), n, bits.data(), first, kept.data());
                CHECK(std::equal(want.begin(), want.end(), kept.begin(), kept.begin() + length),
                      "version %d, %d logits from %zu: other logits than the set's", version, n, first);
            }
        }
    }
}

void large_numbers_are_those_not_below() {
    std::mt19937                    r(4);
    std::normal_distribution<float> normal(0, 2);
    for (int version = 0; version < kernels.n; version++) {
        for (const int32_t n : { 1, 7, 16, 33, 63, 64, 65, 150, 256 }) {
            std::vector<float> x(n);
            for (float & v : x) {
                v = std::round(normal(r));
            }
            x[n / 2] = std::numeric_limits<float>::quiet_NaN();
            x[n / 3] = -infinity;
            for (const float least : { -2.0f, 0.0f, 1.0f, 99.0f }) {
                std::vector<uint64_t> want((n + 63) / 64), got(want.size(), 1);
                for (int32_t i = 0; i < n; i++) {
                    want[i / 64] |= uint64_t(x[i] >= least) << (i % 64);
                }
                kernels.list[version].at_least(x.data(), n, least, got.data());
                CHECK(got == want, "version %d, %d numbers from %g on: others", version, n, double(least));
            }
        }
    }
}

void every_instruction_set_agrees() {
    std::mt19937                                            r(1);
    std::normal_distribution<float>                         normal(0, 4);
    const std::map<const char *, std::function<float(int)>> rows = {
        { "any", [&](int) { return normal(r); } },
        { "most without weight", [&](int) { return -200 * float(r()) / float(r.max()); } },
        { "some impossible", [](int i) { return i % 3 == 0   ? -infinity
                                                : i % 3 == 1 ? 3.0f
                                                             : float(-i); } },
        { "some NaN", [](int i) { return i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : float(i % 7); } },
        { "none possible", [](int) { return -infinity; } },
        { "all NaN", [](int) { return std::numeric_limits<float>::quiet_NaN(); } },
        { "the last is largest", [](int i) { return float(i) / 16; } },
        { "the first is largest", [](int i) { return float(-i) / 16; } },
    };
    for (const auto & [name, logit] : rows) {
        for (const int n : { 1, 5, 8, 15, 16, 17, 63, 64, 65, 255, 256, 1000 }) {
            std::vector<float> logits(n);
            for (int i = 0; i < n; i++) {
                logits[i] = logit(i);
            }
            for (const float factor : { 1.442695f, 0.1f, 30.0f }) {
                check_passes(name, logits, factor);
            }
        }
    }
}

// --- choices --------------------------------------------------------------------

chooser make_chooser(int32_t n, float temperature, float top_p = 1, float min_p = 0, int32_t top_k = 0) {
    chooser c;
    c.n_vocab          = n;
    c.opts.temperature = temperature;
    c.opts.top_p       = top_p;
    c.opts.min_p       = min_p;
    c.opts.top_k       = top_k;
    c.opts.seed        = 7;
    if (temperature > 0) {
        c.chain = make_chain(c.opts);
    }
    return c;
}

std::vector<float> random_logits(int32_t n, unsigned seed, float width = 3) {
    std::mt19937                    r(seed);
    std::normal_distribution<float> normal(0, width);
    std::vector<float>              logits(n);
    for (float & x : logits) {
        x = normal(r);
    }
    return logits;
}

// Allowed tokens, best first.
std::vector<llama_token> ranked(const chooser & c, const std::vector<float> & logits) {
    std::vector<llama_token> order;
    for (llama_token t = 0; t < c.n_vocab; t++) {
        if (!std::binary_search(c.suppressed.begin(), c.suppressed.end(), t)) {
            order.push_back(t);
        }
    }
    std::stable_sort(order.begin(), order.end(), [&](llama_token a, llama_token b) { return logits[a] > logits[b]; });
    return order;
}

void the_best_tokens_are_those_of_a_sort() {
    for (const int32_t n : { 1, 255, 256, 257, 5000 }) {
        auto c      = make_chooser(n, 0);
        auto logits = random_logits(n, static_cast<unsigned>(n));
        for (float & x : logits) {
            x = std::round(x * 4); // ties
        }
        for (llama_token t = 0; t < n - 1; t += 3) {
            c.suppressed.push_back(t);
        }
        const auto order = ranked(c, logits);
        CHECK(c.argmax(logits.data()) == order[0], "%d tokens: the best is %d, want %d", n, c.argmax(logits.data()),
              order[0]);
        for (const size_t k : { size_t(1), size_t(40), size_t(500) }) {
            c.collect(logits.data(), k);
            CHECK(c.candidates.size() == std::min(k, order.size()), "%d tokens, k %zu: %zu candidates", n, k,
                  c.candidates.size());
            for (size_t i = 0; i < c.candidates.size(); i++) {
                CHECK(c.candidates[i].id == order[i], "%d tokens, k %zu: candidate %zu is %d, want %d", n, k, i,
                      c.candidates[i].id, order[i]);
            }
        }
    }
}

void truncation_keeps_what_its_definition_keeps() {
    for (const float top_p : { 0.5f, 0.9f, 1.0f }) {
        for (const float min_p : { 0.0f, 0.05f, 0.3f }) {
            auto       c      = make_chooser(3000, 0.7f, top_p, min_p);
            const auto logits = random_logits(3000, 3, 5);
            if (!c.truncates()) {
                continue;
            }
            const auto order = ranked(c, logits);
            double     all   = 0;
            for (const llama_token t : order) {
                all += std::exp(double(logits[t]) - logits[order[0]]);
            }
            std::vector<llama_token> want;
            double                   run = 0;
            for (const llama_token t : order) {
                const double w = std::exp(double(logits[t]) - logits[order[0]]);
                if (!want.empty() && (w < min_p || (top_p < 1 && run >= top_p * all))) {
                    break;
                }
                want.push_back(t);
                run += w;
            }
            CHECK(c.truncate(logits.data()), "top-p %g, min-p %g: too many tokens", double(top_p), double(min_p));
            CHECK(c.candidates.size() == want.size(), "top-p %g, min-p %g: %zu tokens, want %zu", double(top_p),
                  double(min_p), c.candidates.size(), want.size());
        }
    }
}

// Draws have the odds of the softmax: each count lies within five standard deviations.
void draws_have_the_odds_of_the_softmax() {
    constexpr int draws = 200000;
    for (const float temperature : { 0.5f, 1.0f, 2.0f }) {
        const int32_t n      = 700; // three blocks
        auto          c      = make_chooser(n, temperature);
        const auto    logits = random_logits(n, 5, 2);
        c.suppressed         = { 0, 300, 699 };
        std::vector<double> odds(n);
        for (const llama_token t : ranked(c, logits)) {
            odds[t] = std::exp(double(logits[t]) / temperature);
        }
        const double     sum = std::accumulate(odds.begin(), odds.end(), 0.0);
        std::vector<int> counts(n);
        for (int i = 0; i < draws; i++) {
            c.position = static_cast<uint64_t>(i);
            c.attempt  = 0;
            counts[c.draw_from_all(logits.data())]++;
        }
        for (int32_t t = 0; t < n; t++) {
            const double p = odds[t] / sum, mean = draws * p;
            CHECK(std::fabs(counts[t] - mean) <= 5 * std::sqrt(mean * (1 - p)) + 3,
                  "temperature %g: token %d was drawn %d times, want about %g", double(temperature), t, counts[t],
                  mean);
        }
    }
}

// The sum of the weights of tokens with a bit in set, relative to the best logit of c, in doubles.
double plain_sum(const chooser & c, const std::vector<float> & logits, const std::vector<uint64_t> & set) {
    double sum = 0;
    for (const llama_token t : ranked(c, logits)) {
        if ((set[t / 64] >> (t % 64) & 1) != 0) {
            sum += std::exp((double(logits[t]) - double(c.best_logit)) / double(c.opts.temperature));
        }
    }
    return sum;
}

// Sets with few, some and all refused tokens of a block; refused tokens with hardly any, and with nearly all weight.
void sums_without_excluded_tokens_are_those_of_the_others() {
    const int32_t n = 5000;
    std::mt19937  r(6);
    for (const unsigned refused : { 0u, 3u, 30u, 90u, 100u }) {
        for (const float heavy : { 0.0f, 20.0f, 200.0f }) {
            auto c      = make_chooser(n, 0.8f);
            auto logits = random_logits(n, refused + 1);
            for (llama_token t = 1; t < n; t += 97) {
                c.suppressed.push_back(t);
            }
            std::vector<uint64_t> set(n / 64 + 2, ~uint64_t(0)), left = set;
            const auto            leave_out = [](std::vector<uint64_t> & s, llama_token t) {
                s[t / 64] &= ~(uint64_t(1) << (t % 64));
            };
            for (llama_token t = 0; t < n; t++) {
                if (r() % 100 < refused && (t < 1024 || t >= 1280)) { // one block keeps all
                    leave_out(set, t);
                }
            }
            for (const llama_token t : { 2, 700, 4999 }) {
                logits[t] += heavy;
                leave_out(set, t);
            }
            CHECK(c.sum_all(logits.data(), c.factor()), "no sum");
            for (int i = 0; i < 5; i++) {
                const llama_token t = i < 2 ? (i == 0 ? 2 : 700) : c.redraw(logits.data());
                c.exclude(logits.data(), t);
                leave_out(left, t);
                leave_out(set, t);
                const double want = plain_sum(c, logits, left);
                CHECK(std::fabs(c.weight_of_all() - want) <= 1e-5 * want, "%d excluded, heavy %g: %g, want %g", i + 1,
                      double(heavy), c.weight_of_all(), want);
            }
            c.restrict_to(logits.data(), set.data());
            const double want = plain_sum(c, logits, set);
            CHECK(std::fabs(c.weight_of_all() - want) <= 1e-5 * want, "%u of 100 refused, heavy %g: %g, want %g",
                  refused, double(heavy), c.weight_of_all(), want);
            for (int i = 0; i < 200; i++) {
                const llama_token t = c.redraw(logits.data());
                CHECK((set[t / 64] >> (t % 64) & 1) != 0, "%u of 100 refused: %d was drawn", refused, t);
            }
        }
    }
    auto       c      = make_chooser(300, 1);
    const auto logits = random_logits(300, 1);
    c.sum_all(logits.data(), c.factor());
    const std::vector<uint64_t> none(300 / 64 + 2);
    c.restrict_to(logits.data(), none.data());
    CHECK(c.redraw(logits.data()) == AGD_SAMPLE_NOTFINITE, "a token was drawn from none");
}

void the_heaviest_tokens_leave_out_at_most_their_limit() {
    for (const int32_t n : { 1, 300, 20000 }) {
        auto c      = make_chooser(n, 0.7f);
        auto logits = random_logits(n, 9);
        for (float & x : logits) {
            x = std::round(x * 64) / 64; // ties
        }
        for (llama_token t = 0; t < n - 1; t += 5) {
            c.suppressed.push_back(t);
        }
        const auto order = ranked(c, logits);
        for (const double share : { 0.0, 1e-5, 1e-3, 0.1, 0.9 }) {
            c.sum_all(logits.data(), c.factor());
            const double all     = c.weight_of_all();
            const double rest    = c.collect_heaviest(logits.data(), share * all, -infinity);
            double       lighter = all;
            size_t       fewest  = 0; // tokens that must be listed
            while (fewest < order.size() && lighter > share * all) {
                lighter -= c.weight(logits[order[fewest++]]);
            }
            c.sort_collected();
            double sum = 0;
            for (size_t i = 0; i < c.candidates.size(); i++) {
                CHECK(c.candidates[i].id == order[i], "%d tokens, share %g: %zu is %d, want %d", n, share, i,
                      c.candidates[i].id, order[i]);
                sum += double(c.candidates[i].p);
            }
            CHECK(rest <= share * all + 1e-6 * all && std::fabs(all - sum - rest) <= 1e-6 * all,
                  "%d tokens, share %g: %g of %g are missing", n, share, rest, all);
            const double lightest = c.weight(logits[order[std::min(fewest, order.size()) - 1]]);
            CHECK(c.candidates.empty() || share == 0 || double(c.candidates.back().p) >= lightest / 1.126,
                  "%d tokens, share %g: the list ends with %g instead of %g", n, share, double(c.candidates.back().p),
                  lightest);
        }
    }
}

void rows_without_a_finite_number_are_told() {
    for (const float x : { -infinity, std::numeric_limits<float>::quiet_NaN() }) {
        const std::vector<float> row(600, x);
        CHECK(make_chooser(600, 0).argmax(row.data()) == AGD_SAMPLE_NOTFINITE, "greedy");
        CHECK(make_chooser(600, 1).draw_from_all(row.data()) == AGD_SAMPLE_NOTFINITE, "temperature");
        CHECK(!make_chooser(600, 1, 0.9f).truncate(row.data()), "top-p");
    }
}

} // namespace

int main() {
    keeping_is_exact();
    large_numbers_are_those_not_below();
    every_instruction_set_agrees();
    the_best_tokens_are_those_of_a_sort();
    truncation_keeps_what_its_definition_keeps();
    draws_have_the_odds_of_the_softmax();
    sums_without_excluded_tokens_are_those_of_the_others();
    the_heaviest_tokens_leave_out_at_most_their_limit();
    rows_without_a_finite_number_are_told();
    return testing::result();
}
