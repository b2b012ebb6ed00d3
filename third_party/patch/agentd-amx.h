// The tiles of Intel AMX: up to 16 rows of up to 64 bytes, which one instruction multiplies.
//
// The instructions are written out. Compilers before GCC 14 misplace the stores that a tile load reads, and llama.cpp's
// own files must not be compiled for AMX, since ggml's products with it depend on the batch.
#ifndef AGENTD_AMX_H
#define AGENTD_AMX_H

#include <cstddef>
#include <cstdint>

#if defined(__linux__) && defined(__x86_64__)
#define AGENTD_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace { // of each of ggml's variants
namespace agentd_amx {

#if defined(AGENTD_AMX)
// Whether the processor multiplies tiles, and Linux lets this process.
inline bool has_amx() {
    static const bool has = [] {
        constexpr unsigned bfloats = 1 << 22, tiles = 1 << 24;
        constexpr long     request = 0x1023, data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        unsigned           a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (~d & (bfloats | tiles)) == 0 &&
               syscall(SYS_arch_prctl, request, data) == 0;
    }();
    return has;
}

// The shapes of a thread's tiles, while this lives: 0 to 3 hold sums, 4 to 7 what is multiplied.
class tiles_in_use {
  public:
    tiles_in_use() = default;
    ~tiles_in_use() {
        if (key >= 0) {
            asm volatile("tilerelease"); // a switch of threads saves no tiles then
        }
    }
    tiles_in_use(const tiles_in_use &)             = delete;
    tiles_in_use & operator=(const tiles_in_use &) = delete;

    // Products of a panel and the one beside it: sums 0 and 1 and factor 6 are as wide as the first, sums 2 and 3 and
    // factor 7 as the second, in words. Factors 4 and 5 have 64 bytes. All have 16 rows.
    void panels(int width, int beside) {
        set(width * 32 + beside, 16, { 4 * width, 4 * width, 4 * beside, 4 * beside, 64, 64, 4 * width, 4 * beside });
    }

    // Products of n rows: sums 0 to 3 and factor 4 have as many. Factors 5 to 7 have 16. All have 64 bytes.
    void rows(int n) { set(1024 + n, n, { 64, 64, 64, 64, 64, 64, 64, 64 }); }

  private:
    using numbers = int[8];

    void set(int wanted, int rows, const numbers & bytes) {
        if (wanted == key) {
            return;
        }
        key = wanted;
        alignas(64) uint8_t config[64] = { 1 }; // the palette
        for (int i = 0; i < 8; i++) {
            config[16 + 2 * i] = static_cast<uint8_t>(bytes[i]);
            config[48 + i]     = static_cast<uint8_t>(i < 5 ? rows : 16);
        }
        asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
    }

    int key = -1;
};

template <int T> inline __attribute__((always_inline)) void load_tile(const void * p, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(T) : "memory");
}

template <int T> inline __attribute__((always_inline)) void store_tile(void * p, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(T) : "memory");
}

template <int T> inline __attribute__((always_inline)) void clear_tile() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }

// Adds the products of pairs of bfloat16.
template <int Sum, int A, int B> inline __attribute__((always_inline)) void multiply_bfloats() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(A), "i"(B));
}

#else
constexpr bool has_amx() { return false; }

struct tiles_in_use {};
#endif

} // namespace agentd_amx
} // namespace

#endif // AGENTD_AMX_H
