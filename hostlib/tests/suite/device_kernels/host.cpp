// The device's kernels for a processor: what of CUDA C++ they use, and a launch that executes the threads of each warp in lockstep between exchanges.

#include <cmath>
#include <csetjmp>
#include <cstring>
#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline

struct Index {
    unsigned x;
};
struct uint2 {
    unsigned x, y;
};

static thread_local Index threadIdx, blockIdx, blockDim;

template <typename To, typename From> static To of_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static float __uint_as_float(unsigned bits) { return of_bits<float>(bits); }
static unsigned __float_as_uint(float value) { return of_bits<unsigned>(value); }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __dsub_rn(double a, double b) { return a - b; }
static float __double2float_rn(double value) { return (float)value; }
static float __int2float_rn(int value) { return (float)value; }
static float __uint2float_rn(unsigned value) { return (float)value; }
static double __uint2double_rn(unsigned value) { return (double)value; }
static int __float2int_rd(float value) { return (int)floorf(value); }
static int __float2int_rn(float value) { return (int)rintf(value); }

// The threads of a warp, which take turns. Each has a stack of its own, and executes one warp after the other there: a context is made once, and left and
// entered by jumps, which need no system call.
struct Warp {
    ucontext_t contexts[32];
    jmp_buf scheduler, threads[32];
    bool started[32], finished[32];
    // What each has given to an exchange; two, since a thread may be one exchange ahead.
    unsigned exchanged[2][32], exchanges[32];
    char stacks[32][64 << 10];
};

static thread_local Warp warp;

__attribute__((noinline)) static void leave(unsigned lane)
{
    if (!_setjmp(warp.threads[lane]))
        _longjmp(warp.scheduler, 1);
}

static unsigned __shfl_xor_sync(unsigned, unsigned value, unsigned apart)
{
    unsigned lane = threadIdx.x % 32, round = warp.exchanges[lane]++ % 2;
    warp.exchanged[round][lane] = value;
    leave(lane);
    return warp.exchanged[round][lane ^ apart];
}

#include "kernels.cu"

static thread_local void (*launched)(Args);
static thread_local Args arguments;

static void run_thread()
{
    unsigned lane = threadIdx.x % 32;
    for (;;) {
        launched(arguments);
        warp.finished[lane] = true;
        leave(lane);
    }
}

__attribute__((noinline)) static void enter(unsigned lane)
{
    if (_setjmp(warp.scheduler))
        return;
    if (warp.started[lane])
        _longjmp(warp.threads[lane], 1);
    warp.started[lane] = true;
    ucontext_t &context = warp.contexts[lane];
    getcontext(&context);
    context.uc_stack.ss_sp = warp.stacks[lane];
    context.uc_stack.ss_size = sizeof warp.stacks[lane];
    makecontext(&context, run_thread, 0);
    setcontext(&context);
}

static void run_warp(unsigned first)
{
    for (unsigned lane = 0; lane < 32; lane++) {
        warp.finished[lane] = false;
        warp.exchanges[lane] = 0;
    }
    for (bool runs = true; runs;) {
        runs = false;
        for (unsigned lane = 0; lane < 32; lane++) {
            if (warp.finished[lane])
                continue;
            runs = true;
            threadIdx.x = first + lane;
            enter(lane);
        }
    }
}

// Threads of kernels without exchanges are executed one after the other.
extern "C" void launch(void (*kernel)(Args), const Args *args, unsigned grid, unsigned threads, bool exchanges)
{
    launched = kernel;
    arguments = *args;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        for (unsigned first = 0; first < threads; first += 32) {
            if (exchanges)
                run_warp(first);
            for (threadIdx.x = first; !exchanges && threadIdx.x < first + 32; threadIdx.x++)
                kernel(*args);
        }
}
