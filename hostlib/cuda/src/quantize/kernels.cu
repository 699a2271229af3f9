// The quantiser of hostlib/src/quantize as kernels: the same bits as its portable code.
//
// A warp has one block. Rounding is part of each operation's name (__fmul_rn and others), so a compiler can neither fuse nor approximate; flags that flush
// subnormal numbers must be off. Elements are loaded and stored as integers, and converted here: devices differ in the bits of NaN.
//
// kernels.ptx is made of this file, see tests/suite/ptx.rs; tests/suite/host.h has it compiled for processors.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static __device__ __forceinline__

// Element types, and the bits of their NaN.
enum Format { F32, F16, BF16 };
#define NAN_OF(FORMAT) ((FORMAT) == F32 ? 0x7FC00000u : (FORMAT) == F16 ? 0x7E00u : 0x7FC0u)

// As in hostlib/src/quantize.rs and quantize/scalar.rs.
#define EXPONENT_MIN 30
#define NON_FINITE 255
#define ROUND_BITS 0x4B400000

// As in hostlib/cuda/src/quantize.rs.
#define STOCHASTIC 1u
#define AVERAGE 2u
#define CHECKED 4u

// Pairs of elements, of 4 or 8 bytes, that a thread loads before it works on the first: so many bytes are under way at a time.
#define AHEAD_OF(PAIR) ((PAIR) == 8 ? 2 : 4)

// What a launch works on, as BlockArgs in hostlib/cuda/src/quantize.rs.
struct Args {
    u64 tensor, residual, exponents, lanes;
    u64 length;
    u64 key;
    u32 number, blocks, block;
    u32 bits, headroom, world, flags;
};

// The block of a thread's warp.
struct Place {
    u64 block, start;
    u32 count, lane;
};

DEVICE bool locate(const Args &args, Place &place)
{
    u32 warps = blockDim.x / 32;
    place.block = (u64)blockIdx.x * warps + threadIdx.x / 32;
    place.lane = threadIdx.x % 32;
    place.start = place.block * args.block;
    if (place.block >= args.blocks)
        return false;
    u64 left = args.length - place.start;
    place.count = left < args.block ? (u32)left : args.block;
    return true;
}

// An element in binary32, from its bits. Exact.
template <Format FORMAT> DEVICE float widen(u32 raw)
{
    if (FORMAT == F32)
        return __uint_as_float(raw);
    if (FORMAT == BF16)
        return __uint_as_float(raw << 16);
    u32 magnitude = (raw & 0x7FFF) << 13;
    // 2^112 is what the exponents' biases differ by.
    u32 bits = __float_as_uint(__fmul_rn(__uint_as_float(magnitude), __uint_as_float(0x77800000)));
    if (magnitude >= 0x0F800000)
        bits = magnitude | 0x7F800000;
    return __uint_as_float(bits | (raw & 0x8000) << 16);
}

// The bits of the nearest element, ties to even; of numbers and infinities, not of NaN.
template <Format FORMAT> DEVICE u32 narrow(float value)
{
    u32 bits = __float_as_uint(value);
    if (FORMAT == F32)
        return bits;
    if (FORMAT == BF16)
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    u32 magnitude = bits & 0x7FFFFFFF, half;
    if (magnitude >= 0x47800000)
        half = 0x7C00;
    else if (magnitude >= 0x38800000)
        half = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    else
        // Between 1/2 and 1 the last bit of binary32 is worth what that of a subnormal binary16 is.
        half = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), 0.5f)) - 0x3F000000;
    return half | (bits >> 16 & 0x8000);
}

// Loads the elements `at` and, if there is one, the next. `together`: the address is a multiple of both elements' size.
template <Format FORMAT> DEVICE void load(u64 tensor, u64 at, bool both, bool together, u32 pair[2])
{
    pair[1] = 0;
    if (FORMAT == F32) {
        const u32 *from = (const u32 *)tensor + at;
        if (both && together) {
            uint2 loaded = *(const uint2 *)from;
            pair[0] = loaded.x;
            pair[1] = loaded.y;
            return;
        }
        pair[0] = from[0];
        if (both)
            pair[1] = from[1];
    } else {
        const u16 *from = (const u16 *)tensor + at;
        if (both && together) {
            u32 loaded = *(const u32 *)from;
            pair[0] = loaded & 0xFFFF;
            pair[1] = loaded >> 16;
            return;
        }
        pair[0] = from[0];
        if (both)
            pair[1] = from[1];
    }
}

template <Format FORMAT> DEVICE void store(u64 tensor, u64 at, bool both, bool together, const u32 pair[2])
{
    if (FORMAT == F32) {
        u32 *to = (u32 *)tensor + at;
        if (both && together) {
            uint2 stored;
            stored.x = pair[0];
            stored.y = pair[1];
            *(uint2 *)to = stored;
            return;
        }
        to[0] = pair[0];
        if (both)
            to[1] = pair[1];
    } else {
        u16 *to = (u16 *)tensor + at;
        if (both && together) {
            *(u32 *)to = (pair[0] & 0xFFFF) | pair[1] << 16;
            return;
        }
        to[0] = (u16)pair[0];
        if (both)
            to[1] = (u16)pair[1];
    }
}

// Whether pairs of elements can be loaded together. Blocks have an even number of elements.
template <Format FORMAT> DEVICE bool pairs_at(u64 tensor)
{
    return tensor % (FORMAT == F32 ? 8 : 4) == 0;
}

// 2^power for -127..=127.
DEVICE float power_of_two(int power)
{
    return __uint_as_float(power >= -126 ? (u32)(power + 127) << 23 : 1u << 22);
}

// The quantum is 2^this.
DEVICE int quantum_power(u32 exponent, u32 bits, u32 headroom)
{
    int clamped = exponent < EXPONENT_MIN ? EXPONENT_MIN : (int)exponent;
    return clamped - (126 + (int)bits - 1 - (int)headroom);
}

// SplitMix64: one step and the finaliser.
DEVICE u64 mix(u64 number)
{
    u64 z = number + 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

// The random number of an element: a whole number of 24 bits.
DEVICE float draw(u64 key, u32 element)
{
    u32 x = (u32)key + element * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x7FEB352Du ^ (u32)(key >> 32);
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return __uint2float_rn((x ^ x >> 16) >> 8);
}

// What mantissas are made with.
struct Range {
    float scale, limit, low, high;
    u32 headroom, span;
    u64 key;
};

template <int BITS> DEVICE Range range_of(const Args &args, float scale, u64 block)
{
    Range range;
    u32 span = 1u << (BITS - 1 - args.headroom), last_place = span >> 24;
    range.scale = scale;
    range.limit = __fsub_rn(__uint2float_rn(span), 0.5f);
    range.low = -__uint2float_rn(span);
    range.high = __uint2float_rn(span - (last_place > 1 ? last_place : 1));
    range.headroom = args.headroom;
    range.span = span;
    range.key = mix(args.key ^ (u64)(u32)(args.number + block));
    return range;
}

template <int BITS> DEVICE int mantissa_of(float value, const Range &range, bool stochastic, u32 element)
{
    float scaled = __fmul_rn(value, range.scale);
    if (stochastic) {
        scaled = scaled > range.low ? scaled : range.low;
        scaled = scaled < range.high ? scaled : range.high;
        int below = __float2int_rd(scaled);
        float above = __fmul_rn(__fsub_rn(scaled, __int2float_rn(below)), 16777216.0f);
        return below + (draw(range.key, element) < above ? 1 : 0);
    }
    if (BITS == 16) {
        float rounder = __fadd_rn(12582912.0f, __uint2float_rn(range.span));
        int bits = (int)__float_as_uint(__fadd_rn(scaled, rounder)), top = 0xFFFF >> range.headroom;
        int lane = (bits > ROUND_BITS ? bits : ROUND_BITS) - ROUND_BITS;
        return (lane < top ? lane : top) - (int)range.span;
    }
    float low = scaled > -range.limit ? scaled : -range.limit;
    return scaled >= range.limit ? 0x7FFFFFFF >> range.headroom : __float2int_rn(low);
}

template <Format FORMAT, bool FEEDBACK> DEVICE u32 magnitude_of(const Args &args, const Place &place, u32 at, u32 pair[2], u32 left[2], bool together)
{
    bool both = at + 1 < place.count;
    float values[2] = {widen<FORMAT>(pair[0]), widen<FORMAT>(pair[1])};
    if (FEEDBACK) {
        for (int half = 0; half < 2; half++) {
            values[half] = __fadd_rn(values[half], __uint_as_float(left[half]));
            pair[half] = __float_as_uint(values[half]);
        }
        store<FORMAT>(args.tensor, place.start + at, both, together, pair);
    }
    u32 first = __float_as_uint(values[0]) & 0x7FFFFFFF, second = __float_as_uint(values[1]) & 0x7FFFFFFF;
    return first > second ? first : second;
}

// The exponent of each block. With FEEDBACK, the residual is added to the tensor first.
template <Format FORMAT, bool FEEDBACK> DEVICE void find_exponents(const Args &args)
{
    const int AHEAD = AHEAD_OF(FORMAT == F32 ? 8 : 4);
    Place place;
    if (!locate(args, place))
        return;
    bool together = pairs_at<FORMAT>(args.tensor), left_together = pairs_at<F32>(args.residual);
    u32 largest = 0;
    for (u32 base = 2 * place.lane; base < place.count; base += 64 * AHEAD) {
        u32 pairs[AHEAD][2], left[AHEAD][2];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i;
            if (at < place.count) {
                load<FORMAT>(args.tensor, place.start + at, at + 1 < place.count, together, pairs[i]);
                if (FEEDBACK)
                    load<F32>(args.residual, place.start + at, at + 1 < place.count, left_together, left[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i;
            if (at < place.count) {
                u32 magnitude = magnitude_of<FORMAT, FEEDBACK>(args, place, at, pairs[i], left[i], together);
                largest = magnitude > largest ? magnitude : largest;
            }
        }
    }
    for (u32 apart = 16; apart > 0; apart /= 2) {
        u32 other = __shfl_xor_sync(0xFFFFFFFF, largest, apart);
        largest = other > largest ? other : largest;
    }
    if (place.lane != 0)
        return;
    u32 exponent = largest >> 23 > EXPONENT_MIN ? largest >> 23 : EXPONENT_MIN;
    if (args.flags & STOCHASTIC) {
        // There is no room above the highest mantissa.
        int power = quantum_power(exponent, args.bits, args.headroom);
        u32 highest = (1u << (args.bits - 1 - args.headroom)) - 1;
        double room = __dmul_rn(__uint2double_rn(highest), (double)power_of_two(power));
        if ((double)__uint_as_float(largest) > room && exponent < NON_FINITE - 1)
            exponent++;
    }
    ((u8 *)args.exponents)[place.block] = (u8)exponent;
}

// The biased lanes of each block by its agreed exponent. With FEEDBACK, the residual becomes what the lanes leave out.
template <Format FORMAT, int BITS, bool FEEDBACK> DEVICE void make_lanes(const Args &args)
{
    const int AHEAD = AHEAD_OF(FORMAT == F32 ? 8 : 4);
    Place place;
    if (!locate(args, place))
        return;
    bool together = pairs_at<FORMAT>(args.tensor), left_together = pairs_at<F32>(args.residual);
    u32 exponent = ((const u8 *)args.exponents)[place.block];
    int power = quantum_power(exponent, BITS, args.headroom);
    Range range = range_of<BITS>(args, power_of_two(-power), place.block);
    double quantum = (double)power_of_two(power);
    bool finite = exponent != NON_FINITE, stochastic = args.flags & STOCHASTIC;
    for (u32 base = 2 * place.lane; base < place.count; base += 64 * AHEAD) {
        u32 pairs[AHEAD][2];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i;
            if (at < place.count)
                load<FORMAT>(args.tensor, place.start + at, at + 1 < place.count, together, pairs[i]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i, lanes[2], left[2];
            if (at >= place.count)
                continue;
            bool both = at + 1 < place.count;
            for (int half = 0; half < 2; half++) {
                float value = widen<FORMAT>(pairs[i][half]);
                bool used = finite && (half == 0 || both);
                int mantissa = used ? mantissa_of<BITS>(value, range, stochastic, at + half) : 0;
                lanes[half] = (u32)mantissa + range.span;
                if (FEEDBACK) {
                    double sent = __dmul_rn((double)__int2float_rn(mantissa), quantum);
                    left[half] = finite ? __float_as_uint(__double2float_rn(__dsub_rn((double)value, sent))) : 0;
                }
            }
            // Two lanes of 16 bits are a word, also where the second has no element.
            if (BITS == 16)
                ((u32 *)args.lanes)[(place.start + at) / 2] = (lanes[0] & 0xFFFF) | lanes[1] << 16;
            else
                store<F32>(args.lanes, place.start + at, both, true, lanes);
            if (FEEDBACK)
                store<F32>(args.residual, place.start + at, both, left_together, left);
        }
    }
}

template <Format FORMAT, int BITS> DEVICE u32 result_of(const Args &args, u32 lane, u32 bias, float scale, bool finite)
{
    u32 none = BITS == 16 ? 0xFFFF : 0xFFFFFFFF;
    u32 raw = narrow<FORMAT>(__fmul_rn(__int2float_rn((int)(lane - bias)), scale));
    if (args.flags & AVERAGE)
        raw = narrow<FORMAT>(__fdiv_rn(widen<FORMAT>(raw), __uint2float_rn(args.world)));
    // No sum is like this: it was not received.
    bool lost = (args.flags & CHECKED) && lane == none;
    return finite && !lost ? raw : NAN_OF(FORMAT);
}

// The sums of each block, or their averages.
template <Format FORMAT, int BITS> DEVICE void make_results(const Args &args)
{
    const int AHEAD = AHEAD_OF(BITS / 4);
    Place place;
    if (!locate(args, place))
        return;
    bool together = pairs_at<FORMAT>(args.tensor);
    u32 exponent = ((const u8 *)args.exponents)[place.block];
    float scale = power_of_two(quantum_power(exponent, BITS, args.headroom));
    u32 bias = args.world << (BITS - 1 - args.headroom);
    bool finite = exponent != NON_FINITE;
    for (u32 base = 2 * place.lane; base < place.count; base += 64 * AHEAD) {
        u32 pairs[AHEAD][2];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i;
            if (at >= place.count)
                continue;
            if (BITS == 16) {
                u32 word = ((const u32 *)args.lanes)[(place.start + at) / 2];
                pairs[i][0] = word & 0xFFFF;
                pairs[i][1] = word >> 16;
            } else {
                load<F32>(args.lanes, place.start + at, at + 1 < place.count, true, pairs[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            u32 at = base + 64 * i, results[2];
            if (at >= place.count)
                continue;
            for (int half = 0; half < 2; half++)
                results[half] = result_of<FORMAT, BITS>(args, pairs[i][half], bias, scale, finite);
            store<FORMAT>(args.tensor, place.start + at, at + 1 < place.count, together, results);
        }
    }
}

#define KERNEL extern "C" __global__ void

#define EXPONENTS(NAME, FORMAT, FEEDBACK) KERNEL exponents_##NAME(Args args) { find_exponents<FORMAT, FEEDBACK>(args); }
#define LANES(NAME, FORMAT, BITS, FEEDBACK) KERNEL lanes_##NAME(Args args) { make_lanes<FORMAT, BITS, FEEDBACK>(args); }
#define RESULTS(NAME, FORMAT, BITS) KERNEL results_##NAME(Args args) { make_results<FORMAT, BITS>(args); }

EXPONENTS(f32, F32, false)
EXPONENTS(f32_feedback, F32, true)
EXPONENTS(f16, F16, false)
EXPONENTS(bf16, BF16, false)
LANES(f32_bfp16, F32, 16, false)
LANES(f32_bfp16_feedback, F32, 16, true)
LANES(f32_bfp32, F32, 32, false)
LANES(f32_bfp32_feedback, F32, 32, true)
LANES(f16_bfp16, F16, 16, false)
LANES(bf16_bfp16, BF16, 16, false)
RESULTS(f32_bfp16, F32, 16)
RESULTS(f32_bfp32, F32, 32)
RESULTS(f16_bfp16, F16, 16)
RESULTS(bf16_bfp16, BF16, 16)

// What the others are compared with: reads and writes 8 bytes a thread, of an even number of words.
KERNEL copy_words(Args args)
{
    u64 pair = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (pair < args.length / 2)
        ((uint2 *)args.lanes)[pair] = ((const uint2 *)args.tensor)[pair];
}
