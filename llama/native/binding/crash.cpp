// Writes a line to stderr when a signal ends the process.
//
// Go reports the faults of its own threads only. On a thread that C made (OpenMP's, a driver's) Go's handler restores
// the default action and raises the signal again, which ends the process without a word. The handlers here come before
// Go's. They leave Go's own faults to Go, which makes panics of them; they report every other one. Afterwards a thread
// of C dies by the default action, with the registers of the fault, and a thread of Go goes on to Go's handler, which
// prints its traces. A thread of C has no stack of its own for signals: if its stack overflows, Linux can't run a
// handler, and there is no line.
//
// What runs in the handler uses system calls, arithmetic and static memory, and with them two functions of glibc that
// POSIX does not list as async-signal-safe:
//   - backtrace() loads libgcc at its first call, which agd_crash_install makes. Later ones allocate nothing.
//   - dladdr1() allocates nothing, but takes the dynamic linker's lock. A thread that faulted within the linker holds
//     it: the lock is recursive.
// Another thread that holds the lock for ever can't hold up the end: an alarm is set. And both functions run when the
// part of the line that needs neither is written.
#include "api.h"
#include "binding/internal.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>

// A file that a model was loaded from. The handler may read the list at any time, so that none is ever freed.
struct agd_watch {
    std::atomic<bool> on{ true };
    int               fd;
    struct stat       then;
    std::string       path;
    agd_watch *       next;
};

namespace {

constexpr int      signals[]      = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
constexpr int      max_frames     = 48;
constexpr unsigned report_seconds = 5; // until a report that hangs is given up

struct sigaction          previous[NSIG];
char                      build[256];
uintptr_t                 go_start, go_end; // addresses of Go's code
std::atomic<agd_watch *>  watches{ nullptr };
std::atomic<const char *> reason{ nullptr }; // why abort() is about to be called
std::atomic<int>          reporter{ 0 };     // thread that writes the line

// A piece of text in static memory. What does not fit is cut off.
struct text {
    char   bytes[16 << 10];
    size_t n;

    text & operator<<(const char * s) {
        while (*s != '\0' && n < sizeof(bytes)) {
            bytes[n++] = *s == '\n' ? ' ' : *s;
            s++;
        }
        return *this;
    }

    text & number(uint64_t value, unsigned base = 10) {
        char   digits[24];
        size_t at  = sizeof(digits) - 1;
        digits[at] = '\0';
        do {
            digits[--at] = "0123456789abcdef"[value % base];
            value /= base;
        } while (value != 0);
        return *this << digits + at;
    }

    text & hex(uint64_t value) { return (*this << "0x").number(value, 16); }

    void flush() {
        for (size_t done = 0; done < n;) {
            const ssize_t written = write(STDERR_FILENO, bytes + done, n - done);
            if (written < 0 && errno != EINTR) {
                break;
            }
            done += written < 0 ? 0 : static_cast<size_t>(written);
        }
        n = 0;
    }
};

text line;

bool in_go(uintptr_t pc) {
    return go_start <= pc && pc < go_end;
}

#if defined(__x86_64__)
uintptr_t program_counter(const mcontext_t & registers) {
    return static_cast<uintptr_t>(registers.gregs[REG_RIP]);
}

// Where a function that has done nothing yet returns to; 0: that can't be read.
uintptr_t caller(const mcontext_t & registers) {
    uintptr_t   address = 0;
    const iovec to{ &address, sizeof(address) };
    const iovec from{ reinterpret_cast<void *>(registers.gregs[REG_RSP]), sizeof(address) };
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof(address) ? address : 0;
}
#elif defined(__aarch64__)
uintptr_t program_counter(const mcontext_t & registers) {
    return registers.pc;
}

uintptr_t caller(const mcontext_t & registers) {
    return registers.regs[30];
}
#else
#error "where do the registers lie?"
#endif

// Whether the processor raised it, at an instruction of this thread. Others were sent.
bool by_processor(const siginfo_t * info) {
    return info->si_code > 0;
}

// Go gives its threads a stack for signals. A thread of C that has called Go has one as well, and counts as Go's.
bool of_go() {
    stack_t stack;
    return sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0;
}

const char * name_of(int sig) {
    switch (sig) {
        case SIGSEGV: return "SIGSEGV";
        case SIGBUS: return "SIGBUS";
        case SIGFPE: return "SIGFPE";
        case SIGILL: return "SIGILL";
        default: return "SIGABRT";
    }
}

const char * cause_of(int sig, int code) {
    if (sig == SIGSEGV && code == SEGV_MAPERR) {
        return "nothing is mapped there";
    }
    if (sig == SIGSEGV && code == SEGV_ACCERR) {
        return "access is not allowed there";
    }
    if (sig == SIGBUS && code == BUS_ADRERR) {
        return "beyond the end of the mapped file";
    }
    if (sig == SIGFPE && code == FPE_INTDIV) {
        return "integer division by zero";
    }
    return nullptr;
}

uint64_t read_hex(const char *& at) {
    uint64_t value = 0;
    for (; ('0' <= *at && *at <= '9') || ('a' <= *at && *at <= 'f'); at++) {
        value = value * 16 + static_cast<uint64_t>(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    }
    return value;
}

// Adds the file of an entry "start-end rwxp offset device inode  path", if the entry maps one at the address.
bool add_if_mapped(text & out, const char * entry, uintptr_t address) {
    const uint64_t start = read_hex(entry);
    const uint64_t end   = *entry == '-' ? read_hex(++entry) : 0;
    if (address < start || end <= address) {
        return false;
    }
    if (const char * path = std::strchr(entry, '/')) {
        entry += std::strlen(" rwxp ");
        (out << ", offset ").hex(address - start + read_hex(entry)) << " of " << path;
    }
    return true;
}

// Says which file is mapped at an address.
void add_mapping(text & out, uintptr_t address) {
    static char read_into[4096], entry[PATH_MAX + 128];
    const int   fd    = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t      n     = 0;
    bool        found = false;
    for (ssize_t got; !found && fd >= 0 && (got = read(fd, read_into, sizeof(read_into))) > 0;) {
        for (ssize_t i = 0; i < got && !found; i++) {
            if (read_into[i] == '\n') {
                entry[n] = '\0';
                n        = 0;
                found    = add_if_mapped(out, entry, address);
            } else if (n < sizeof(entry) - 1) {
                entry[n++] = read_into[i];
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

void add_signal(text & out, int sig, const siginfo_t * info) {
    out << name_of(sig);
    if (!by_processor(info)) {
        if (info->si_pid != getpid()) {
            (out << " (sent by process ").number(static_cast<uint64_t>(info->si_pid)) << ")";
        } else if (const char * why = reason.load()) {
            out << " (" << why << ")";
        } else if (sig == SIGABRT) {
            out << " (abort() was called)";
        }
        return;
    }
    out << " (";
    if (const char * cause = cause_of(sig, info->si_code)) {
        out << cause;
    } else {
        (out << "code ").number(static_cast<uint64_t>(info->si_code));
    }
    if (sig == SIGSEGV || sig == SIGBUS) {
        const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
        (out << ": address ").hex(address);
        add_mapping(out, address);
    }
    out << ")";
}

void add_thread(text & out) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    (out << " on thread ").number(static_cast<uint64_t>(syscall(SYS_gettid)));
    out << " \"" << name << "\" of " << (of_go() ? "Go" : "C");
}

// Names the model files that are no longer as they were loaded. They are known by descriptors, since another file may
// have taken the path by now, which does no harm to what is mapped.
void add_changed_files(text & out) {
    for (const agd_watch * w = watches.load(); w != nullptr; w = w->next) {
        struct stat now;
        if (!w->on.load() || fstat(w->fd, &now) != 0 ||
            (now.st_size == w->then.st_size && now.st_mtim.tv_sec == w->then.st_mtim.tv_sec &&
             now.st_mtim.tv_nsec == w->then.st_mtim.tv_nsec)) {
            continue;
        }
        out << "; model file " << w->path.c_str() << " changed on disk since it was loaded (";
        if (now.st_size == w->then.st_size) {
            out << "it was written to";
        } else {
            (out << "size ").number(static_cast<uint64_t>(w->then.st_size)) << " -> ";
            out.number(static_cast<uint64_t>(now.st_size)) << " bytes";
        }
        out << ")";
    }
}

void add_frame(text & out, uintptr_t pc) {
    Dl_info    module;
    link_map * map = nullptr;
    if (dladdr1(reinterpret_cast<void *>(pc), &module, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0) {
        out.hex(pc);
        return;
    }
    const char * name = module.dli_fname;
    for (const char * c = name; *c != '\0'; c++) {
        name = *c == '/' ? c + 1 : name;
    }
    // As addr2line wants it: a program that is linked to a fixed address has no offset.
    (out << name << "+").hex(pc - map->l_addr);
    if (module.dli_sname != nullptr) {
        (out << "(" << module.dli_sname << "+").hex(pc - reinterpret_cast<uintptr_t>(module.dli_saddr)) << ")";
    } else if (in_go(pc)) {
        out << "(Go)";
    }
}

void add_backtrace(text & out, const mcontext_t & registers) {
    static void *   frames[max_frames];
    const uintptr_t pc    = program_counter(registers);
    const int       n     = backtrace(frames, max_frames);
    int             first = 0; // behind the frames of the handler
    while (first < n && reinterpret_cast<uintptr_t>(frames[first]) != pc) {
        first++;
    }
    add_frame(out, pc);
    for (int i = first + 1; i < n; i++) {
        add_frame(out << " < ", reinterpret_cast<uintptr_t>(frames[i]));
    }
    if (first == n) { // a call of what is no code
        if (const uintptr_t from = caller(registers)) {
            add_frame(out << " < ", from);
        }
    }
}

void report(int sig, const siginfo_t * info, const mcontext_t & registers) {
    // Ends the process should anything here wait for ever.
    struct sigaction fallback = {};
    fallback.sa_handler       = SIG_DFL;
    sigaction(SIGALRM, &fallback, nullptr);
    alarm(report_seconds);

    line.n = 0;
    line << program_invocation_short_name << ": fatal signal ";
    add_signal(line, sig, info);
    add_thread(line);
    line << "; build: " << build;
    add_changed_files(line);
    line << "; backtrace: ";
    line.flush();
    add_backtrace(line, registers);
    line.n -= line.n == sizeof(line.bytes) ? 1 : 0;
    line.bytes[line.n++] = '\n';
    line.flush();
    alarm(0);
}

// Several threads may fault at once. The first one reports, the others give it time to end the process.
bool is_first() {
    int none = 0;
    if (reporter.compare_exchange_strong(none, static_cast<int>(syscall(SYS_gettid)))) {
        return true;
    }
    for (int i = 0; i < 100 * static_cast<int>(report_seconds) && reporter.load() != 0; i++) {
        const timespec wait{ 0, 10'000'000 };
        nanosleep(&wait, nullptr);
    }
    return false;
}

void on_signal(int sig, siginfo_t * info, void * context) {
    const int          before    = errno;
    const mcontext_t & registers = static_cast<const ucontext_t *>(context)->uc_mcontext;
    const bool         panics    = by_processor(info) && sig != SIGILL && in_go(program_counter(registers));
    if (!panics) {
        const bool first = is_first();
        if (first) {
            report(sig, info, registers);
        }
        if (!of_go() && (by_processor(info) || info->si_pid == getpid())) {
            // The signal is blocked until the handler returns, and then ends the process where it came up.
            struct sigaction fallback = {};
            fallback.sa_handler       = SIG_DFL;
            sigaction(sig, &fallback, nullptr);
            syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info);
            return;
        }
        if (first) {
            reporter = by_processor(info) ? reporter.load() : 0; // who listens to a signal that was sent may go on
        }
    }
    previous[sig].sa_sigaction(sig, info, context);
    errno = before;
}

// Says in the line what std::terminate is called for.
[[noreturn]] void on_terminate() {
    static char why[1024];
    const auto  say = [](const char * what) {
        const std::type_info * type = abi::__cxa_current_exception_type();
        std::snprintf(why, sizeof(why), "uncaught C++ exception %s: %s", type == nullptr ? "" : type->name(), what);
        agd::aborting(why);
    };
    if (std::current_exception() == nullptr) {
        agd::aborting("std::terminate was called");
    } else {
        try {
            std::rethrow_exception(std::current_exception());
        } catch (const std::exception & e) {
            say(e.what());
        } catch (...) {
            say("no std::exception");
        }
    }
    std::abort();
}

} // namespace

namespace agd {

void aborting(const char * why) {
    const char * none = nullptr;
    reason.compare_exchange_strong(none, why);
}

} // namespace agd

extern "C" void agd_crash_build(const char * text) {
    std::snprintf(build, sizeof(build), "%s, llama.cpp %s, ggml %s %s", text, AGENTD_LLAMA_CPP, ggml_version(),
                  ggml_commit());
}

extern "C" void agd_crash_install(uintptr_t start, uintptr_t end) {
    go_start = start;
    go_end   = end;
    void *  frame;
    Dl_info module;
    backtrace(&frame, 1);
    dladdr(reinterpret_cast<void *>(&agd_crash_install), &module);
    std::set_terminate(on_terminate);
    for (const int sig : signals) {
        struct sigaction ours;
        if (sigaction(sig, nullptr, &previous[sig]) != 0 || (previous[sig].sa_flags & SA_SIGINFO) == 0) {
            continue; // not Go's
        }
        ours              = previous[sig]; // the mask, and SA_ONSTACK, which Go wants
        ours.sa_sigaction = on_signal;
        sigaction(sig, &ours, nullptr);
    }
}

extern "C" struct agd_watch * agd_crash_watch(int fd, const char * path) {
    return agd::guard(nullptr, static_cast<agd_watch *>(nullptr), [&]() -> agd_watch * {
        struct stat then;
        if (fstat(fd, &then) != 0) {
            return nullptr;
        }
        auto * w = new agd_watch{ { true }, fd, then, path, watches.load() };
        while (!watches.compare_exchange_weak(w->next, w)) {
        }
        return w;
    });
}

extern "C" void agd_crash_unwatch(struct agd_watch * w) {
    w->on = false;
}

extern "C" const char * agd_native_id(void) {
    return AGENTD_NATIVE;
}
