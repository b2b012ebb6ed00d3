// How OpenMP's threads wait for each other, changed while the process runs.
//
// libgomp reads from the environment, once, how many rounds a thread spins before it sleeps:
// by default 300,000, some milliseconds. It spins 100 rounds only, about a microsecond, while
// the process has more OpenMP threads than processors. A thread that has started such a team,
// and then sleeps, keeps that team: all waits of the process are brief until it ends.
#include "api.h"
#include "errors.h"

#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

namespace {

class extra_team {
  public:
    extra_team() : starter([this] { run(); }) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return started; });
    }

    ~extra_team() {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            ended = true;
        }
        changed.notify_all();
        starter.join();
    }

    // OMP_THREAD_LIMIT or OMP_DYNAMIC can make it too small.
    bool suffices() const { return size > processors; }

  private:
    void run() {
        processors = omp_get_num_procs();
#pragma omp parallel num_threads(processors + 1)
        {
#pragma omp master
            size = omp_get_num_threads();
        }
        std::unique_lock<std::mutex> lock(mutex);
        started = true;
        changed.notify_all();
        changed.wait(lock, [this] { return ended; });
    }

    std::mutex              mutex;
    std::condition_variable changed;
    bool                    started    = false;
    bool                    ended      = false;
    int                     processors = 0;
    int                     size       = 0;
    std::thread             starter; // the last member: it uses the others
};

std::mutex                  extra_mutex;
std::unique_ptr<extra_team> extra;

bool set_brief(bool on) {
    const std::lock_guard<std::mutex> lock(extra_mutex);
    if (!on) {
        extra.reset();
        return true;
    }
    if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) {
        return false; // the user's choice
    }
    if (!extra) {
        extra = std::make_unique<extra_team>(); // throws where no thread can be made
    }
    if (!extra->suffices()) {
        extra.reset();
        return false;
    }
    return true;
}

} // namespace

extern "C" bool agd_brief_waits(bool on) {
    return agd::guard(nullptr, false, [&] { return set_brief(on); });
}

extern "C" void agd_thread_ids(int threads, int * out) {
    // Each thread writes its own.
#pragma omp parallel num_threads(threads)
    out[omp_get_thread_num()] = static_cast<int>(syscall(SYS_gettid));
}
