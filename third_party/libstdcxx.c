// What dist.sh adds to the libstdc++ that a release brings.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// The one function of glibc 2.36 that it calls, for std::random_device.
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t value;
    if (getentropy(&value, sizeof value) != 0) {
        abort(); // the kernel has no random numbers
    }
    return value;
}

// std::condition_variable::wait by the version that GCC 11 and older link. Drivers of GPUs, which come from the
// system, find this library in the process and not their own. The archive has only the version since GCC 12.
void wait(void * condition, void * lock) __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
__attribute__((used)) void wait_gcc11(void * condition, void * lock) {
    wait(condition, lock);
}
__asm__(".symver wait_gcc11, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
