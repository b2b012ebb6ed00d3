// Faults that are made on purpose, for tests.
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" void ggml_abort(const char * file, int line, const char * format, ...); // of ggml.h

namespace {

struct order {
    const char *        kind;
    const char *        file;
    pthread_barrier_t * start = nullptr; // of several threads
};

volatile int sink;

// Maps the file and reads after its end, which is where it was until it is cut to one byte.
void read_behind_end(const char * file) {
    const int   fd = open(file, O_RDWR | O_CLOEXEC);
    struct stat now;
    if (fd < 0 || fstat(fd, &now) != 0) {
        std::exit(3);
    }
    auto * bytes = static_cast<volatile char *>(
        mmap(nullptr, static_cast<size_t>(now.st_size), PROT_READ, MAP_SHARED, fd, 0));
    if (bytes == MAP_FAILED || ftruncate(fd, 1) != 0) {
        std::exit(3);
    }
    sink = bytes[now.st_size - 1];
}

__attribute__((noinline)) void fault(const order & o) {
    if (std::strcmp(o.kind, "write") == 0) {
        *reinterpret_cast<volatile int *>(16) = 1;
    } else if (std::strcmp(o.kind, "jump") == 0) {
        void (*volatile nowhere)() = nullptr;
        nowhere();
    } else if (std::strcmp(o.kind, "bus") == 0) {
        read_behind_end(o.file);
    } else if (std::strcmp(o.kind, "read") == 0) {
        sink = *reinterpret_cast<volatile char *>(std::strtoull(o.file, nullptr, 16));
    } else if (std::strcmp(o.kind, "divide") == 0) {
        volatile int none = 0;
        sink              = 100;
        sink              = sink / none;
    } else if (std::strcmp(o.kind, "illegal") == 0) {
        __builtin_trap();
    } else if (std::strcmp(o.kind, "abort") == 0) {
        std::abort();
    } else if (std::strcmp(o.kind, "free") == 0) {
        // Zeros: free() takes what is before the pointer for a size, and may fault at what was left there.
        volatile auto inner = reinterpret_cast<char *>(std::calloc(1, 64)) + 8;
        std::free(inner);
    } else if (std::strcmp(o.kind, "throw") == 0) {
        throw std::runtime_error("thrown on purpose");
    } else if (std::strcmp(o.kind, "ggml") == 0) {
        ggml_abort("faults.cpp", 7, "made to fail");
    }
    std::exit(3); // no such kind, or nothing happened
}

void * on_thread(void * arg) {
    const auto * o = static_cast<order *>(arg);
    if (o->start != nullptr) {
        pthread_barrier_wait(o->start);
    }
    fault(*o);
    return nullptr;
}

} // namespace

extern "C" void faults_here(const char * kind, const char * file) {
    fault({ kind, file });
}

extern "C" void faults_on_thread(const char * kind, const char * file) {
    order     o{ kind, file };
    pthread_t thread;
    pthread_create(&thread, nullptr, on_thread, &o);
    pthread_join(thread, nullptr);
}

extern "C" void faults_in_openmp(const char * kind, const char * file) {
    const order where{ kind, file };
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        fault(where);
    }
}

extern "C" void faults_many(const char * kind, const char * file) {
    pthread_t         threads[8];
    pthread_barrier_t start;
    pthread_barrier_init(&start, nullptr, 8);
    order o{ kind, file, &start };
    for (auto & thread : threads) {
        pthread_create(&thread, nullptr, on_thread, &o);
    }
    for (auto & thread : threads) {
        pthread_join(thread, nullptr);
    }
}
