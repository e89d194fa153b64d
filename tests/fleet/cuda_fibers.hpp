// The threads of one CUDA block as fibers of one CPU thread, and the places where they wait for each other.
//
// A fiber runs until it reaches a collective, then hands over to the next that can run. What a GPU leaves undefined
// (lanes of a warp at different collectives, a thread gone while others wait) ends the launch with a sentence.
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_start_switch_fiber(void** fake, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake, const void** bottom, size_t* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* from, size_t size);
#endif

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace cuda_on_cpu {
constexpr int lanes = 32, most_threads = 1024, page = 4096;
constexpr size_t most_shared = 227 * 1024;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t stack_bytes = 64 * page;
#else
constexpr size_t stack_bytes = 32 * page;
#endif

// Saves only what a call must preserve; swapcontext, for other processors, makes a system call each time.
#if defined(__x86_64__) && !defined(CUDA_ON_CPU_UCONTEXT)
extern "C" __attribute__((visibility("hidden"))) void cuda_on_cpu_switch(void** saved, void* wanted);
asm(R"(
.text
.globl cuda_on_cpu_switch
.hidden cuda_on_cpu_switch
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_on_cpu_switch, .-cuda_on_cpu_switch
)");
struct Context {
    void* at;
    void start(char* stack, size_t bytes, void (*entry)()) {
        void** top = reinterpret_cast<void**>(stack + bytes) - 2;  // the return address lies at a multiple of 16
        top[0] = reinterpret_cast<void*>(entry);
        top[1] = nullptr;
        at = top - 6;
    }
    void leave_for(Context& other) { cuda_on_cpu_switch(&at, other.at); }
};
#else
struct Context {
    ucontext_t at;
    void start(char* stack, size_t bytes, void (*entry)()) {
        getcontext(&at);
        at.uc_stack.ss_sp = stack;
        at.uc_stack.ss_size = bytes;
        at.uc_link = nullptr;
        makecontext(&at, entry, 0);
    }
    void leave_for(Context& other) { swapcontext(&at, &other.at); }
};
#endif

struct Fiber {
    Context context;
    const char* stack;
    size_t bytes;
    void* fake;
};

// What a lane brings to a warp's collective; each kind of collective uses what it needs.
struct Brought {
    const void* in[2];
    void* out;
    uint64_t value;
    int from;
};

struct Warp {
    const char* kind;  // where its lanes wait, by the address of the name
    int waiting, gone;
    Brought brought[lanes];
    uint64_t result[lanes];
};

static Fiber outside, fibers[most_threads];
static Warp warps[most_threads / lanes];
static bool ready[most_threads];
static int num_threads, num_gone, num_at_barrier, self, chosen;
static unsigned order;  // 0: thread after thread; else the seed of a random order
static bool failed;
static char failure[512];
static char* stacks;
static unsigned char* dynamic_shared;
static size_t dynamic_bytes;
static void (*body)(void*);
static void* body_data;

static void hand_over(Fiber& from, Fiber& to, bool for_good = false) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake, to.stack, to.bytes);
#endif
    (void)for_good;
    from.context.leave_for(to.context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

[[noreturn]] __attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
    int length = snprintf(failure, sizeof failure, "block (%u, %u, %u), thread %d: ", blockIdx.x, blockIdx.y,
                          blockIdx.z, self);
    va_list values;
    va_start(values, format);
    vsnprintf(failure + length, sizeof failure - length, format, values);
    va_end(values);
    failed = true;
    hand_over(fibers[self], outside, true);
    abort();  // nobody comes back to a thread that failed
}

static unsigned random_number() {
    order ^= order << 13;
    order ^= order >> 17;
    order ^= order << 5;
    return order;
}

// The next thread that can run; a random order starts to look anywhere, so that a missing barrier shows sooner.
static Fiber& next_fiber() {
    const int from = order ? random_number() % num_threads : self + 1;
    for (int step = 0; step < num_threads; step++) {
        chosen = from + step < num_threads ? from + step : from + step - num_threads;
        if (ready[chosen]) return fibers[chosen];
    }
    return outside;
}

static void wait() {
    const int me = self;
    ready[me] = false;
    hand_over(fibers[me], next_fiber());
    self = me;
    threadIdx = {unsigned(me), 0, 0};
}

static void arrive(Warp& warp, const char* kind) {
    if (warp.waiting && warp.kind != kind)
        fail("reaches %s while %d lanes of its warp wait at %s", kind, warp.waiting, warp.kind);
    if (warp.gone) fail("reaches %s after %d lanes of its warp ended", kind, warp.gone);
    warp.kind = kind;
    warp.waiting++;
}

// Waits until the whole warp is here; the last lane does the work for all.
template <class Work>
static inline void meet_warp(const char* kind, const Brought& brought, Work work) {
    Warp& warp = warps[self / lanes];
    arrive(warp, kind);
    warp.brought[self % lanes] = brought;
    if (warp.waiting < lanes) return wait();
    work(warp);
    warp.waiting = 0;
    memset(ready + self / lanes * lanes, true, lanes);
}

static const char barrier[] = "__syncthreads";

static void meet_block() {
    if (num_gone) fail("reaches %s after %d threads of its block ended", barrier, num_gone);
    arrive(warps[self / lanes], barrier);
    if (++num_at_barrier < num_threads) return wait();
    num_at_barrier = 0;
    for (int warp = 0; warp < num_threads / lanes; warp++) warps[warp].waiting = 0;
    memset(ready, true, num_threads);
}

static void leave() {
    Warp& warp = warps[self / lanes];
    if (warp.waiting) fail("ends while %d lanes of its warp wait at %s", warp.waiting, warp.kind);
    if (num_at_barrier) fail("ends while %d threads of its block wait at %s", num_at_barrier, barrier);
    warp.gone++;
    num_gone++;
    ready[self] = false;
}

static void enter() {
#ifdef __SANITIZE_ADDRESS__
    const void* bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (!outside.stack) outside.stack = static_cast<const char*>(bottom), outside.bytes = bytes;
#endif
    self = chosen;
    threadIdx = {unsigned(self), 0, 0};
    body(body_data);
    leave();
    hand_over(fibers[self], next_fiber(), true);
    abort();  // nobody comes back to a thread that ended
}

// Each stack is two mappings, of which a process has 65,530: so all libraries use those of the first.
static char* make_stacks() {
    const size_t each = stack_bytes + page;
    void* all = mmap(nullptr, each * most_threads, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) abort();
    char* made = static_cast<char*>(all);
    for (int thread = 0; thread < most_threads; thread++)
        if (mprotect(made + thread * each, page, PROT_NONE)) abort();  // a stack that overflows faults
    return made;
}

static char* use_stacks(char* given) {
    stacks = given ? given : make_stacks();
    for (int thread = 0; thread < most_threads; thread++) {
        fibers[thread].stack = stacks + thread * (stack_bytes + page) + page;
        fibers[thread].bytes = stack_bytes - thread % 32 * 128;  // tops that share no cache line of the first level
    }
    return stacks;
}

static void run_block() {
    memset(dynamic_shared, 0xff, dynamic_bytes);
    num_gone = num_at_barrier = 0;
    for (int warp = 0; warp < num_threads / lanes; warp++) warps[warp].waiting = warps[warp].gone = 0;
    for (int thread = 0; thread < num_threads; thread++) {
        Fiber& fiber = fibers[thread];
#ifdef __SANITIZE_ADDRESS__
        __asan_unpoison_memory_region(fiber.stack, fiber.bytes);
#endif
        fiber.context.start(const_cast<char*>(fiber.stack), fiber.bytes, enter);
        ready[thread] = true;
    }
    self = num_threads - 1;  // whom thread 0 follows
    hand_over(outside, next_fiber());
}

static const char* refusal(int threads, int shared_bytes) {
    if (threads <= 0 || threads > most_threads || threads % lanes) return "a block is 1 to 32 whole warps";
    if (shared_bytes < 0 || size_t(shared_bytes) > most_shared) return "a block has at most 227 KiB of shared memory";
    return nullptr;
}

static void run_grid(dim3 grid, int threads, int shared_bytes, void (*what)(void*), void* data) {
    const char* refused = refusal(threads, shared_bytes);
    failed = refused != nullptr;
    if (failed) snprintf(failure, sizeof failure, "%s", refused);
    if (failed) return;
    void* memory = nullptr;  // a block of its own, so that AddressSanitizer sees where it ends
    if (posix_memalign(&memory, 16, shared_bytes)) abort();
    dynamic_shared = static_cast<unsigned char*>(memory);
    dynamic_bytes = shared_bytes, num_threads = threads, gridDim = grid, blockDim = {unsigned(threads), 1, 1};
    body = what, body_data = data, outside.stack = nullptr;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x && !failed; x++) {
                blockIdx = {x, y, z};
                run_block();
            }
    free(memory);
}
}  // namespace cuda_on_cpu
