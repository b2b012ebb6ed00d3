// Writes a line to stderr when a signal ends the process.
//
// Go reports the faults of its own threads only. On a thread that C made (OpenMP's, a driver's) Go's handler restores
// the default action and raises the signal again, which ends the process without a word. The handlers here come before
// Go's. They leave Go's own faults to Go, which makes panics of them; they report every other one. Afterwards a thread
// of C dies by the default action, with the registers of the fault, and a thread of Go goes on to Go's handler, which
// prints its traces. A thread of C has no stack of its own for signals: if its stack overflows, Linux can't run a
// handler, and there is no line.
//
// Two functions here are not async-signal-safe by POSIX: snprintf allocates nothing for these formats, and dladdr1 takes
// the dynamic linker's lock, which is recursive. Another thread may hold it for ever: the part of the line that needs no
// lock is written first, and an alarm is set.
#include "api.h"
#include "binding/internal.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>

namespace {

constexpr struct {
    int          number;
    const char * name;
} signals[] = {
    { SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" }, { SIGFPE, "SIGFPE" }, { SIGILL, "SIGILL" }, { SIGABRT, "SIGABRT" }
};

constexpr unsigned report_seconds = 5; // until a report that hangs is given up

struct sigaction          previous[NSIG];
char                      build[256];
uintptr_t                 go_start, go_end; // addresses of Go's code
std::atomic<const char *> reason{ nullptr }; // why abort() is about to be called
std::atomic<bool>         reporting{ false };

uintptr_t program_counter(const mcontext_t & registers) {
#if defined(__x86_64__)
    return static_cast<uintptr_t>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return registers.pc;
#else
#error "where do the registers lie?"
#endif
}

// Whether the processor raised it, at an instruction of this thread. Others were sent.
bool by_processor(const siginfo_t * info) {
    return info->si_code > 0;
}

// Go gives its threads a stack for signals. A thread of C that has called Go has one as well, and counts as Go's.
bool of_go() {
    stack_t stack;
    return sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) == 0;
}

const char * cause_of(int sig, int code) {
    return sig == SIGSEGV && code == SEGV_MAPERR   ? "nothing is mapped there"
           : sig == SIGSEGV && code == SEGV_ACCERR ? "access is not allowed there"
           : sig == SIGBUS && code == BUS_ADRERR   ? "beyond the end of a mapped file, as a model's that was cut short"
           : sig == SIGFPE && code == FPE_INTDIV   ? "integer division by zero"
                                                   : "a fault of the processor";
}

template <typename... T> void print(const char * format, T... values) {
    static char  text[2400]; // a reason and a build fit
    const int    n    = std::snprintf(text, sizeof(text), format, values...);
    const size_t size = std::min(static_cast<size_t>(std::max(n, 0)), sizeof(text) - 1);
    std::replace(text, text + (size > 0 ? size - 1 : 0), '\n', ' ');
    for (size_t done = 0; done < size;) {
        const ssize_t written = write(STDERR_FILENO, text + done, size - done);
        if (written < 0 && errno != EINTR) {
            return;
        }
        done += written < 0 ? 0 : static_cast<size_t>(written);
    }
}

void default_action(int sig) {
    struct sigaction action = {};
    action.sa_handler       = SIG_DFL;
    sigaction(sig, &action, nullptr);
}

void report(int sig, const siginfo_t * info, uintptr_t pc) {
    default_action(SIGALRM); // ends the process should anything here wait for ever
    alarm(report_seconds);

    char         fault[160] = "abort() was called", thread[16] = "";
    const char * why = fault;
    if (by_processor(info)) {
        std::snprintf(fault, sizeof(fault), "%s: address 0x%lx, code %d", cause_of(sig, info->si_code),
                      reinterpret_cast<uintptr_t>(info->si_addr), info->si_code);
    } else if (info->si_pid != getpid()) {
        std::snprintf(fault, sizeof(fault), "sent by process %d", static_cast<int>(info->si_pid));
    } else if (reason.load() != nullptr) {
        why = reason;
    }
    const auto * name = std::find_if(std::begin(signals), std::end(signals), [&](auto & s) { return s.number == sig; });
    prctl(PR_GET_NAME, thread);
    print("%s: fatal signal %s (%s) on thread %ld \"%s\" of %s; build: %s; at ", program_invocation_short_name,
          name->name, why, syscall(SYS_gettid), thread, of_go() ? "Go" : "C", build);
    Dl_info    module = {};
    link_map * map    = nullptr;
    if (dladdr1(reinterpret_cast<void *>(pc), &module, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0) {
        print("0x%lx\n", pc);
    } else { // as addr2line wants it: a program that is linked to a fixed address has no offset
        print("%s+0x%lx (%s)\n", module.dli_fname, pc - map->l_addr,
              module.dli_sname == nullptr ? "no symbol" : module.dli_sname);
    }
    alarm(0);
}

// Several threads may fault at once. The first one reports, the others give it time to end the process.
bool is_first() {
    if (!reporting.exchange(true)) {
        return true;
    }
    for (unsigned i = 0; i < 100 * report_seconds && reporting.load(); i++) {
        const timespec wait{ 0, 10'000'000 };
        nanosleep(&wait, nullptr);
    }
    return false;
}

void on_signal(int sig, siginfo_t * info, void * context) {
    const int       before = errno;
    const uintptr_t pc     = program_counter(static_cast<const ucontext_t *>(context)->uc_mcontext);
    const bool      panics = by_processor(info) && sig != SIGILL && go_start <= pc && pc < go_end;
    if (!panics) {
        const bool first = is_first();
        if (first) {
            report(sig, info, pc);
        }
        if (!of_go() && (by_processor(info) || info->si_pid == getpid())) {
            // The signal is blocked until the handler returns, and then ends the process where it came up.
            default_action(sig);
            syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info);
            return;
        }
        if (first) {
            reporting = by_processor(info); // who listens to a signal that was sent may go on
        }
    }
    previous[sig].sa_sigaction(sig, info, context);
    errno = before;
}

} // namespace

void agd::aborting(const char * why) {
    const char * none = nullptr;
    reason.compare_exchange_strong(none, why);
}

extern "C" void agd_crash_build(const char * text) {
    std::snprintf(build, sizeof(build), "%s, llama.cpp %s, ggml %s %s", text, AGENTD_LLAMA_CPP, ggml_version(),
                  ggml_commit());
}

extern "C" void agd_crash_install(uintptr_t start, uintptr_t end) {
    go_start = start;
    go_end   = end;
    agd_crash_build("unknown");
    std::set_terminate(__gnu_cxx::__verbose_terminate_handler); // ggml's runs a debugger
    for (const auto & [sig, name] : signals) {
        struct sigaction ours;
        if (sigaction(sig, nullptr, &previous[sig]) != 0 || (previous[sig].sa_flags & SA_SIGINFO) == 0) {
            continue; // not Go's
        }
        ours              = previous[sig]; // the mask, and SA_ONSTACK, which Go wants
        ours.sa_sigaction = on_signal;
        sigaction(sig, &ours, nullptr);
    }
}

extern "C" const char * agd_native_id(void) {
    return AGENTD_NATIVE;
}
