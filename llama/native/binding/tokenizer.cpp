// How much stack llama.cpp's tokenizer needs for a long word.
#include "api.h"
#include "errors.h"

#include "llama.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t stack_size = 8u << 20; // as threads have
constexpr size_t characters = 2048;     // in a row

struct measured_run {
    const llama_vocab * vocab;
    std::string         text;
};

void * tokenize(void * arg) {
    const auto & run = *static_cast<measured_run *>(arg);
    try {
        std::vector<llama_token> tokens(run.text.size() + 8);
        llama_tokenize(run.vocab, run.text.data(), static_cast<int32_t>(run.text.size()), tokens.data(),
                       static_cast<int32_t>(tokens.size()),
                       /*add_special=*/false, /*parse_special=*/false);
    } catch (...) { // a text that can't be tokenized needs no stack
    }
    return nullptr;
}

// The pages of a fresh stack that a run touches are those that it needs.
size_t stack_of(measured_run & run) {
    void * stack = mmap(nullptr, stack_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        throw std::bad_alloc();
    }
    madvise(stack, stack_size, MADV_NOHUGEPAGE);
    pthread_attr_t attributes;
    pthread_t      thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, stack_size);
    const int failed = pthread_create(&thread, &attributes, tokenize, &run);
    pthread_attr_destroy(&attributes);
    size_t touched = 0;
    if (failed == 0) {
        pthread_join(thread, nullptr);
        const size_t               page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        std::vector<unsigned char> resident(stack_size / page);
        if (mincore(stack, stack_size, resident.data()) == 0) {
            for (const unsigned char r : resident) {
                touched += (r & 1) * page;
            }
        }
    }
    munmap(stack, stack_size);
    if (failed != 0) {
        throw std::runtime_error("no thread could be started");
    }
    return touched;
}

} // namespace

extern "C" int64_t agd_tokenizer_stack(const struct llama_vocab * vocab, char ** err) {
    return agd::guard(err, int64_t(-1), [&] {
        size_t most = 0;
        for (const char * unit : { "x", "X", " ", "\n", ".", "7", "\xE6\x97\xA5", "e\xCC\x81" }) {
            measured_run run{ vocab, {} };
            for (size_t i = 0; i < characters; i++) {
                run.text += unit;
            }
            most = std::max(most, stack_of(run));
        }
        return static_cast<int64_t>(most);
    });
}
