// lavapipe.c keeps what Mesa 22.3's Vulkan driver for CPUs frees too early. test-device.sh preloads it there.
//
// A descriptor of that driver holds a buffer without a reference, and a dispatch takes and drops references to all
// descriptors of a set, also to those that no shader reads (docs/gpu.md). So a buffer that was destroyed is counted
// again, in memory that has another owner. Here its memory stays, with a count that never falls to zero.

#include <malloc.h>
#include <stddef.h>

void __libc_free(void * memory);

// The bytes that malloc has for a struct llvmpipe_resource of 496 bytes. Its first word is the count.
enum { resource = 504 };

void free(void * memory) {
    if (memory != NULL && malloc_usable_size(memory) == resource) {
        *(int *) memory = 1 << 30;
        return;
    }
    __libc_free(memory);
}
