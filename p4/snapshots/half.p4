// netfold_all_reduce: in-network all-reduce: 16 half lanes of 16 bits, 64 slots x 2 sets, up to 32 children.
// Generated; do not edit.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<1> reserved;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header netfold_t {
    bit<4> version;
    bit<4> kind;
    bit<8> flags;
    bit<4> op;
    bit<4> class;
    bit<8> reason;
    bit<16> job;
    bit<15> slot;
    bit<1> set;
    bit<32> epoch;
    bit<32> key;
    bit<32> chunk;
    bit<32> bitmap;
    bit<16> count;
    bit<8> exp;
    bit<8> exp_next;
}

header lanes_t {
    bit<16> d00;
    bit<16> d01;
    bit<16> d02;
    bit<16> d03;
    bit<16> d04;
    bit<16> d05;
    bit<16> d06;
    bit<16> d07;
    bit<16> d08;
    bit<16> d09;
    bit<16> d10;
    bit<16> d11;
    bit<16> d12;
    bit<16> d13;
    bit<16> d14;
    bit<16> d15;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    netfold_t netfold;
    lanes_t lanes;
}

struct metadata_t {
    bit<16> port;
    bit<8> reason;
    bit<8> answer;
    bit<32> bit_mask;
    bit<32> others;
    bit<16> world;
    bit<16> group;
    bit<32> index;
    bit<32> seen;
    bit<32> stored;
    bit<32> diff;
    bit<32> duplicate;
    bit<32> missing;
    bit<8> controller;
    bit<8> role;
    bit<16> up;
    bit<16> workers;
    bit<32> settled;
    bit<32> share;
    bit<32> tally;
    bit<48> swap;
    bit<8> emit;
    bit<32> value_00;
    bit<32> value_01;
    bit<32> value_02;
    bit<32> value_03;
    bit<32> value_04;
    bit<32> value_05;
    bit<32> value_06;
    bit<32> value_07;
    bit<32> value_08;
    bit<32> value_09;
    bit<32> value_10;
    bit<32> value_11;
    bit<32> value_12;
    bit<32> value_13;
    bit<32> value_14;
    bit<32> value_15;
    bit<32> acc_00;
    bit<32> acc_01;
    bit<32> acc_02;
    bit<32> acc_03;
    bit<32> acc_04;
    bit<32> acc_05;
    bit<32> acc_06;
    bit<32> acc_07;
    bit<32> acc_08;
    bit<32> acc_09;
    bit<32> acc_10;
    bit<32> acc_11;
    bit<32> acc_12;
    bit<32> acc_13;
    bit<32> acc_14;
    bit<32> acc_15;
    bit<32> magnitude_00;
    bit<32> magnitude_01;
    bit<32> magnitude_02;
    bit<32> magnitude_03;
    bit<32> magnitude_04;
    bit<32> magnitude_05;
    bit<32> magnitude_06;
    bit<32> magnitude_07;
    bit<32> magnitude_08;
    bit<32> magnitude_09;
    bit<32> magnitude_10;
    bit<32> magnitude_11;
    bit<32> magnitude_12;
    bit<32> magnitude_13;
    bit<32> magnitude_14;
    bit<32> magnitude_15;
    bit<16> shifts_00;
    bit<16> shifts_01;
    bit<16> shifts_02;
    bit<16> shifts_03;
    bit<16> shifts_04;
    bit<16> shifts_05;
    bit<16> shifts_06;
    bit<16> shifts_07;
    bit<16> shifts_08;
    bit<16> shifts_09;
    bit<16> shifts_10;
    bit<16> shifts_11;
    bit<16> shifts_12;
    bit<16> shifts_13;
    bit<16> shifts_14;
    bit<16> shifts_15;
    bit<8> up_shift_00;
    bit<8> up_shift_01;
    bit<8> up_shift_02;
    bit<8> up_shift_03;
    bit<8> up_shift_04;
    bit<8> up_shift_05;
    bit<8> up_shift_06;
    bit<8> up_shift_07;
    bit<8> up_shift_08;
    bit<8> up_shift_09;
    bit<8> up_shift_10;
    bit<8> up_shift_11;
    bit<8> up_shift_12;
    bit<8> up_shift_13;
    bit<8> up_shift_14;
    bit<8> up_shift_15;
    bit<8> down_shift_00;
    bit<8> down_shift_01;
    bit<8> down_shift_02;
    bit<8> down_shift_03;
    bit<8> down_shift_04;
    bit<8> down_shift_05;
    bit<8> down_shift_06;
    bit<8> down_shift_07;
    bit<8> down_shift_08;
    bit<8> down_shift_09;
    bit<8> down_shift_10;
    bit<8> down_shift_11;
    bit<8> down_shift_12;
    bit<8> down_shift_13;
    bit<8> down_shift_14;
    bit<8> down_shift_15;
}

parser ParserImpl(
    packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata
) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0x4, 0x5, 0x0, 0x0, 0x11): udp;
            default: accept;
        }
    }
    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            0x4e46: netfold;
            default: accept;
        }
    }
    state netfold {
        pkt.extract(hdr.netfold);
        transition select(hdr.netfold.flags) {
            0x80 &&& 0x80: bare;
            default: lanes;
        }
    }
    state lanes {
        pkt.extract(hdr.lanes);
        transition accept;
    }
    state bare {
        transition accept;
    }
}

control IngressImpl(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata
) {
    @id(0x16000001) register<bit<32>, bit<32>>(128) claim_seen;
    @id(0x16000002) register<bit<32>, bit<32>>(128) claim_chunk;
    @id(0x16000003) register<bit<32>, bit<32>>(128) version_chunk;
    @id(0x16000004) register<bit<8>, bit<32>>(128) exponent_exponent;
    @id(0x16001000) register<bit<32>, bit<32>>(128) sum_00;
    @id(0x16001001) register<bit<32>, bit<32>>(128) sum_01;
    @id(0x16001002) register<bit<32>, bit<32>>(128) sum_02;
    @id(0x16001003) register<bit<32>, bit<32>>(128) sum_03;
    @id(0x16001004) register<bit<32>, bit<32>>(128) sum_04;
    @id(0x16001005) register<bit<32>, bit<32>>(128) sum_05;
    @id(0x16001006) register<bit<32>, bit<32>>(128) sum_06;
    @id(0x16001007) register<bit<32>, bit<32>>(128) sum_07;
    @id(0x16001008) register<bit<32>, bit<32>>(128) sum_08;
    @id(0x16001009) register<bit<32>, bit<32>>(128) sum_09;
    @id(0x1600100a) register<bit<32>, bit<32>>(128) sum_10;
    @id(0x1600100b) register<bit<32>, bit<32>>(128) sum_11;
    @id(0x1600100c) register<bit<32>, bit<32>>(128) sum_12;
    @id(0x1600100d) register<bit<32>, bit<32>>(128) sum_13;
    @id(0x1600100e) register<bit<32>, bit<32>>(128) sum_14;
    @id(0x1600100f) register<bit<32>, bit<32>>(128) sum_15;
    @id(0x16000005) register<bit<32>, bit<32>>(128) settled_chunk;
    @id(0x16000006) register<bit<32>, bit<32>>(128) shares_children;
    @id(0x16000007) register<bit<32>, bit<32>>(128) tally_tally;
    @id(0x12000001) counter<bit<32>>(14, CounterType.packets) packets;
    @id(0x12000002) counter<bit<32>>(4, CounterType.packets) answers;

    @hidden
    action claim_peek_out() {
        bit<32> old0;
        claim_seen.read(old0, meta.index);
        meta.seen = old0;
    }

    @hidden
    action version_peek_out() {
        bit<32> old0;
        version_chunk.read(old0, meta.index);
        meta.stored = old0;
    }

    @hidden
    action claim_shut_out() {
        bit<32> old0;
        claim_seen.read(old0, meta.index);
        bit<32> old1;
        claim_chunk.read(old1, meta.index);
        claim_seen.write(meta.index, ((hdr.netfold.chunk == old1) && ((old0 & hdr.netfold.bitmap) == hdr.netfold.bitmap)) ? (old0 | meta.bit_mask) : old0);
        meta.seen = (hdr.netfold.chunk == old1) ? old0 : 32w0;
    }

    @hidden
    action claim_touch_out() {
        bit<32> old0;
        claim_seen.read(old0, meta.index);
        bit<32> old1;
        claim_chunk.read(old1, meta.index);
        claim_seen.write(meta.index, ((int<32>)(hdr.netfold.chunk - old1) > (int<32>)(32w0x0)) ? meta.bit_mask : ((hdr.netfold.chunk == old1) ? (old0 | meta.bit_mask) : old0));
        claim_chunk.write(meta.index, ((int<32>)(hdr.netfold.chunk - old1) > (int<32>)(32w0x0)) ? hdr.netfold.chunk : old1);
        meta.seen = (hdr.netfold.chunk == old1) ? old0 : 32w0;
    }

    @hidden
    action version_touch_out() {
        bit<32> old0;
        version_chunk.read(old0, meta.index);
        version_chunk.write(meta.index, ((int<32>)(hdr.netfold.chunk - old0) > (int<32>)(32w0x0)) ? hdr.netfold.chunk : old0);
        meta.stored = old0;
    }

    @hidden
    action settled_mark() {
        bit<32> old0;
        settled_chunk.read(old0, meta.index);
        settled_chunk.write(meta.index, hdr.netfold.chunk);
    }

    @hidden
    action exponent_clear() {
        exponent_exponent.write(meta.index, 8w0x0);
    }

    @hidden
    action sum_clear() {
        sum_00.write(meta.index, 32w0x0);
        sum_01.write(meta.index, 32w0x0);
        sum_02.write(meta.index, 32w0x0);
        sum_03.write(meta.index, 32w0x0);
        sum_04.write(meta.index, 32w0x0);
        sum_05.write(meta.index, 32w0x0);
        sum_06.write(meta.index, 32w0x0);
        sum_07.write(meta.index, 32w0x0);
        sum_08.write(meta.index, 32w0x0);
        sum_09.write(meta.index, 32w0x0);
        sum_10.write(meta.index, 32w0x0);
        sum_11.write(meta.index, 32w0x0);
        sum_12.write(meta.index, 32w0x0);
        sum_13.write(meta.index, 32w0x0);
        sum_14.write(meta.index, 32w0x0);
        sum_15.write(meta.index, 32w0x0);
    }

    @hidden
    action shares_store() {
        shares_children.write(meta.index, meta.share);
    }

    @hidden
    action tally_store() {
        tally_tally.write(meta.index, meta.tally);
    }

    @hidden
    action settled_mark_out() {
        bit<32> old0;
        settled_chunk.read(old0, meta.index);
        settled_chunk.write(meta.index, hdr.netfold.chunk);
        meta.settled = old0;
    }

    @hidden
    action exponent_store() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
    }

    @hidden
    action sum_store() {
        sum_00.write(meta.index, meta.value_00);
        sum_01.write(meta.index, meta.value_01);
        sum_02.write(meta.index, meta.value_02);
        sum_03.write(meta.index, meta.value_03);
        sum_04.write(meta.index, meta.value_04);
        sum_05.write(meta.index, meta.value_05);
        sum_06.write(meta.index, meta.value_06);
        sum_07.write(meta.index, meta.value_07);
        sum_08.write(meta.index, meta.value_08);
        sum_09.write(meta.index, meta.value_09);
        sum_10.write(meta.index, meta.value_10);
        sum_11.write(meta.index, meta.value_11);
        sum_12.write(meta.index, meta.value_12);
        sum_13.write(meta.index, meta.value_13);
        sum_14.write(meta.index, meta.value_14);
        sum_15.write(meta.index, meta.value_15);
    }

    @hidden
    action shares_read_out() {
        bit<32> old0;
        shares_children.read(old0, meta.index);
        hdr.netfold.bitmap = old0;
    }

    @hidden
    action shares_store_out() {
        shares_children.write(meta.index, meta.share);
        hdr.netfold.bitmap = meta.share;
    }

    @hidden
    action settled_read_out() {
        bit<32> old0;
        settled_chunk.read(old0, meta.index);
        meta.settled = old0;
    }

    @hidden
    action exponent_read_out() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        hdr.netfold.exp_next = old0;
    }

    @hidden
    action tally_read_out() {
        bit<32> old0;
        tally_tally.read(old0, meta.index);
        meta.tally = old0;
    }

    @hidden
    action sum_read_to_acc() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        meta.acc_00 = old0;
        sum_01.read(old0, meta.index);
        meta.acc_01 = old0;
        sum_02.read(old0, meta.index);
        meta.acc_02 = old0;
        sum_03.read(old0, meta.index);
        meta.acc_03 = old0;
        sum_04.read(old0, meta.index);
        meta.acc_04 = old0;
        sum_05.read(old0, meta.index);
        meta.acc_05 = old0;
        sum_06.read(old0, meta.index);
        meta.acc_06 = old0;
        sum_07.read(old0, meta.index);
        meta.acc_07 = old0;
        sum_08.read(old0, meta.index);
        meta.acc_08 = old0;
        sum_09.read(old0, meta.index);
        meta.acc_09 = old0;
        sum_10.read(old0, meta.index);
        meta.acc_10 = old0;
        sum_11.read(old0, meta.index);
        meta.acc_11 = old0;
        sum_12.read(old0, meta.index);
        meta.acc_12 = old0;
        sum_13.read(old0, meta.index);
        meta.acc_13 = old0;
        sum_14.read(old0, meta.index);
        meta.acc_14 = old0;
        sum_15.read(old0, meta.index);
        meta.acc_15 = old0;
    }

    @hidden
    action shares_add_out() {
        bit<32> old0;
        shares_children.read(old0, meta.index);
        shares_children.write(meta.index, old0 | meta.share);
        hdr.netfold.bitmap = old0 | meta.share;
    }

    @hidden
    action tally_add_out() {
        bit<32> old0;
        tally_tally.read(old0, meta.index);
        tally_tally.write(meta.index, old0 + meta.tally);
        meta.tally = old0 + meta.tally;
    }

    @hidden
    action exponent_store_out() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
    }

    @hidden
    action tally_store_out() {
        tally_tally.write(meta.index, meta.tally);
    }

    @hidden
    action sum_store_to_acc() {
        sum_00.write(meta.index, meta.value_00);
        meta.acc_00 = meta.value_00;
        sum_01.write(meta.index, meta.value_01);
        meta.acc_01 = meta.value_01;
        sum_02.write(meta.index, meta.value_02);
        meta.acc_02 = meta.value_02;
        sum_03.write(meta.index, meta.value_03);
        meta.acc_03 = meta.value_03;
        sum_04.write(meta.index, meta.value_04);
        meta.acc_04 = meta.value_04;
        sum_05.write(meta.index, meta.value_05);
        meta.acc_05 = meta.value_05;
        sum_06.write(meta.index, meta.value_06);
        meta.acc_06 = meta.value_06;
        sum_07.write(meta.index, meta.value_07);
        meta.acc_07 = meta.value_07;
        sum_08.write(meta.index, meta.value_08);
        meta.acc_08 = meta.value_08;
        sum_09.write(meta.index, meta.value_09);
        meta.acc_09 = meta.value_09;
        sum_10.write(meta.index, meta.value_10);
        meta.acc_10 = meta.value_10;
        sum_11.write(meta.index, meta.value_11);
        meta.acc_11 = meta.value_11;
        sum_12.write(meta.index, meta.value_12);
        meta.acc_12 = meta.value_12;
        sum_13.write(meta.index, meta.value_13);
        meta.acc_13 = meta.value_13;
        sum_14.write(meta.index, meta.value_14);
        meta.acc_14 = meta.value_14;
        sum_15.write(meta.index, meta.value_15);
        meta.acc_15 = meta.value_15;
    }

    @hidden
    action exponent_raise_out() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        exponent_exponent.write(meta.index, old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next);
        hdr.netfold.exp_next = old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next;
    }

    @hidden
    action sum_sum_to_acc() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 + meta.value_00);
        meta.acc_00 = old0 + meta.value_00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 + meta.value_01);
        meta.acc_01 = old0 + meta.value_01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 + meta.value_02);
        meta.acc_02 = old0 + meta.value_02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 + meta.value_03);
        meta.acc_03 = old0 + meta.value_03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 + meta.value_04);
        meta.acc_04 = old0 + meta.value_04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 + meta.value_05);
        meta.acc_05 = old0 + meta.value_05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 + meta.value_06);
        meta.acc_06 = old0 + meta.value_06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 + meta.value_07);
        meta.acc_07 = old0 + meta.value_07;
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 + meta.value_08);
        meta.acc_08 = old0 + meta.value_08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 + meta.value_09);
        meta.acc_09 = old0 + meta.value_09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 + meta.value_10);
        meta.acc_10 = old0 + meta.value_10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 + meta.value_11);
        meta.acc_11 = old0 + meta.value_11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 + meta.value_12);
        meta.acc_12 = old0 + meta.value_12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 + meta.value_13);
        meta.acc_13 = old0 + meta.value_13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 + meta.value_14);
        meta.acc_14 = old0 + meta.value_14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 + meta.value_15);
        meta.acc_15 = old0 + meta.value_15;
    }

    @hidden
    action sum_max_to_acc() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 > meta.value_00 ? old0 : meta.value_00);
        meta.acc_00 = old0 > meta.value_00 ? old0 : meta.value_00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 > meta.value_01 ? old0 : meta.value_01);
        meta.acc_01 = old0 > meta.value_01 ? old0 : meta.value_01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 > meta.value_02 ? old0 : meta.value_02);
        meta.acc_02 = old0 > meta.value_02 ? old0 : meta.value_02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 > meta.value_03 ? old0 : meta.value_03);
        meta.acc_03 = old0 > meta.value_03 ? old0 : meta.value_03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 > meta.value_04 ? old0 : meta.value_04);
        meta.acc_04 = old0 > meta.value_04 ? old0 : meta.value_04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 > meta.value_05 ? old0 : meta.value_05);
        meta.acc_05 = old0 > meta.value_05 ? old0 : meta.value_05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 > meta.value_06 ? old0 : meta.value_06);
        meta.acc_06 = old0 > meta.value_06 ? old0 : meta.value_06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 > meta.value_07 ? old0 : meta.value_07);
        meta.acc_07 = old0 > meta.value_07 ? old0 : meta.value_07;
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 > meta.value_08 ? old0 : meta.value_08);
        meta.acc_08 = old0 > meta.value_08 ? old0 : meta.value_08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 > meta.value_09 ? old0 : meta.value_09);
        meta.acc_09 = old0 > meta.value_09 ? old0 : meta.value_09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 > meta.value_10 ? old0 : meta.value_10);
        meta.acc_10 = old0 > meta.value_10 ? old0 : meta.value_10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 > meta.value_11 ? old0 : meta.value_11);
        meta.acc_11 = old0 > meta.value_11 ? old0 : meta.value_11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 > meta.value_12 ? old0 : meta.value_12);
        meta.acc_12 = old0 > meta.value_12 ? old0 : meta.value_12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 > meta.value_13 ? old0 : meta.value_13);
        meta.acc_13 = old0 > meta.value_13 ? old0 : meta.value_13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 > meta.value_14 ? old0 : meta.value_14);
        meta.acc_14 = old0 > meta.value_14 ? old0 : meta.value_14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 > meta.value_15 ? old0 : meta.value_15);
        meta.acc_15 = old0 > meta.value_15 ? old0 : meta.value_15;
    }

    @hidden
    action exponent_raise() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        exponent_exponent.write(meta.index, old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next);
    }

    @hidden
    action shares_add() {
        bit<32> old0;
        shares_children.read(old0, meta.index);
        shares_children.write(meta.index, old0 | meta.share);
    }

    @hidden
    action tally_add() {
        bit<32> old0;
        tally_tally.read(old0, meta.index);
        tally_tally.write(meta.index, old0 + meta.tally);
    }

    @hidden
    action sum_sum() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 + meta.value_00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 + meta.value_01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 + meta.value_02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 + meta.value_03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 + meta.value_04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 + meta.value_05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 + meta.value_06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 + meta.value_07);
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 + meta.value_08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 + meta.value_09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 + meta.value_10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 + meta.value_11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 + meta.value_12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 + meta.value_13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 + meta.value_14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 + meta.value_15);
    }

    @hidden
    action sum_max() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 > meta.value_00 ? old0 : meta.value_00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 > meta.value_01 ? old0 : meta.value_01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 > meta.value_02 ? old0 : meta.value_02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 > meta.value_03 ? old0 : meta.value_03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 > meta.value_04 ? old0 : meta.value_04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 > meta.value_05 ? old0 : meta.value_05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 > meta.value_06 ? old0 : meta.value_06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 > meta.value_07 ? old0 : meta.value_07);
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 > meta.value_08 ? old0 : meta.value_08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 > meta.value_09 ? old0 : meta.value_09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 > meta.value_10 ? old0 : meta.value_10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 > meta.value_11 ? old0 : meta.value_11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 > meta.value_12 ? old0 : meta.value_12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 > meta.value_13 ? old0 : meta.value_13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 > meta.value_14 ? old0 : meta.value_14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 > meta.value_15 ? old0 : meta.value_15);
    }

    @hidden
    action lanes_0_00_set(bit<16> value) {
        meta.shifts_00 = value;
    }
    @hidden
    table lanes_0_00 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d00) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_00_set; }
        const default_action = lanes_0_00_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_00_set(0x900);
            0x1 &&& 0x1f: lanes_0_00_set(0x900);
            0x2 &&& 0x1f: lanes_0_00_set(0x800);
            0x3 &&& 0x1f: lanes_0_00_set(0x700);
            0x4 &&& 0x1f: lanes_0_00_set(0x600);
            0x5 &&& 0x1f: lanes_0_00_set(0x500);
            0x6 &&& 0x1f: lanes_0_00_set(0x400);
            0x7 &&& 0x1f: lanes_0_00_set(0x300);
            0x8 &&& 0x1f: lanes_0_00_set(0x200);
            0x9 &&& 0x1f: lanes_0_00_set(0x100);
            0xa &&& 0x1f: lanes_0_00_set(0x0);
            0xb &&& 0x1f: lanes_0_00_set(0x1);
            0xc &&& 0x1f: lanes_0_00_set(0x2);
            0xd &&& 0x1f: lanes_0_00_set(0x3);
            0xe &&& 0x1f: lanes_0_00_set(0x4);
            0xf &&& 0x1f: lanes_0_00_set(0x5);
            0x10 &&& 0x1f: lanes_0_00_set(0x6);
            0x11 &&& 0x1f: lanes_0_00_set(0x7);
            0x12 &&& 0x1f: lanes_0_00_set(0x8);
            0x13 &&& 0x1f: lanes_0_00_set(0x9);
            0x14 &&& 0x1f: lanes_0_00_set(0xa);
            0x15 &&& 0x1f: lanes_0_00_set(0xb);
            0x16 &&& 0x1f: lanes_0_00_set(0xc);
            0x17 &&& 0x1f: lanes_0_00_set(0xd);
            0x18 &&& 0x1f: lanes_0_00_set(0xe);
            0x19 &&& 0x1f: lanes_0_00_set(0xf);
            0x1a &&& 0x1f: lanes_0_00_set(0x10);
            0x1b &&& 0x1f: lanes_0_00_set(0x11);
            0x1c &&& 0x1f: lanes_0_00_set(0x12);
            0x1d &&& 0x1f: lanes_0_00_set(0x13);
            0x1e &&& 0x1f: lanes_0_00_set(0x14);
            0x1f &&& 0x1f: lanes_0_00_set(0x15);
        }
    }

    @hidden
    action lanes_0_01_set(bit<16> value) {
        meta.shifts_01 = value;
    }
    @hidden
    table lanes_0_01 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d01) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_01_set; }
        const default_action = lanes_0_01_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_01_set(0x900);
            0x1 &&& 0x1f: lanes_0_01_set(0x900);
            0x2 &&& 0x1f: lanes_0_01_set(0x800);
            0x3 &&& 0x1f: lanes_0_01_set(0x700);
            0x4 &&& 0x1f: lanes_0_01_set(0x600);
            0x5 &&& 0x1f: lanes_0_01_set(0x500);
            0x6 &&& 0x1f: lanes_0_01_set(0x400);
            0x7 &&& 0x1f: lanes_0_01_set(0x300);
            0x8 &&& 0x1f: lanes_0_01_set(0x200);
            0x9 &&& 0x1f: lanes_0_01_set(0x100);
            0xa &&& 0x1f: lanes_0_01_set(0x0);
            0xb &&& 0x1f: lanes_0_01_set(0x1);
            0xc &&& 0x1f: lanes_0_01_set(0x2);
            0xd &&& 0x1f: lanes_0_01_set(0x3);
            0xe &&& 0x1f: lanes_0_01_set(0x4);
            0xf &&& 0x1f: lanes_0_01_set(0x5);
            0x10 &&& 0x1f: lanes_0_01_set(0x6);
            0x11 &&& 0x1f: lanes_0_01_set(0x7);
            0x12 &&& 0x1f: lanes_0_01_set(0x8);
            0x13 &&& 0x1f: lanes_0_01_set(0x9);
            0x14 &&& 0x1f: lanes_0_01_set(0xa);
            0x15 &&& 0x1f: lanes_0_01_set(0xb);
            0x16 &&& 0x1f: lanes_0_01_set(0xc);
            0x17 &&& 0x1f: lanes_0_01_set(0xd);
            0x18 &&& 0x1f: lanes_0_01_set(0xe);
            0x19 &&& 0x1f: lanes_0_01_set(0xf);
            0x1a &&& 0x1f: lanes_0_01_set(0x10);
            0x1b &&& 0x1f: lanes_0_01_set(0x11);
            0x1c &&& 0x1f: lanes_0_01_set(0x12);
            0x1d &&& 0x1f: lanes_0_01_set(0x13);
            0x1e &&& 0x1f: lanes_0_01_set(0x14);
            0x1f &&& 0x1f: lanes_0_01_set(0x15);
        }
    }

    @hidden
    action lanes_0_02_set(bit<16> value) {
        meta.shifts_02 = value;
    }
    @hidden
    table lanes_0_02 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d02) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_02_set; }
        const default_action = lanes_0_02_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_02_set(0x900);
            0x1 &&& 0x1f: lanes_0_02_set(0x900);
            0x2 &&& 0x1f: lanes_0_02_set(0x800);
            0x3 &&& 0x1f: lanes_0_02_set(0x700);
            0x4 &&& 0x1f: lanes_0_02_set(0x600);
            0x5 &&& 0x1f: lanes_0_02_set(0x500);
            0x6 &&& 0x1f: lanes_0_02_set(0x400);
            0x7 &&& 0x1f: lanes_0_02_set(0x300);
            0x8 &&& 0x1f: lanes_0_02_set(0x200);
            0x9 &&& 0x1f: lanes_0_02_set(0x100);
            0xa &&& 0x1f: lanes_0_02_set(0x0);
            0xb &&& 0x1f: lanes_0_02_set(0x1);
            0xc &&& 0x1f: lanes_0_02_set(0x2);
            0xd &&& 0x1f: lanes_0_02_set(0x3);
            0xe &&& 0x1f: lanes_0_02_set(0x4);
            0xf &&& 0x1f: lanes_0_02_set(0x5);
            0x10 &&& 0x1f: lanes_0_02_set(0x6);
            0x11 &&& 0x1f: lanes_0_02_set(0x7);
            0x12 &&& 0x1f: lanes_0_02_set(0x8);
            0x13 &&& 0x1f: lanes_0_02_set(0x9);
            0x14 &&& 0x1f: lanes_0_02_set(0xa);
            0x15 &&& 0x1f: lanes_0_02_set(0xb);
            0x16 &&& 0x1f: lanes_0_02_set(0xc);
            0x17 &&& 0x1f: lanes_0_02_set(0xd);
            0x18 &&& 0x1f: lanes_0_02_set(0xe);
            0x19 &&& 0x1f: lanes_0_02_set(0xf);
            0x1a &&& 0x1f: lanes_0_02_set(0x10);
            0x1b &&& 0x1f: lanes_0_02_set(0x11);
            0x1c &&& 0x1f: lanes_0_02_set(0x12);
            0x1d &&& 0x1f: lanes_0_02_set(0x13);
            0x1e &&& 0x1f: lanes_0_02_set(0x14);
            0x1f &&& 0x1f: lanes_0_02_set(0x15);
        }
    }

    @hidden
    action lanes_0_03_set(bit<16> value) {
        meta.shifts_03 = value;
    }
    @hidden
    table lanes_0_03 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d03) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_03_set; }
        const default_action = lanes_0_03_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_03_set(0x900);
            0x1 &&& 0x1f: lanes_0_03_set(0x900);
            0x2 &&& 0x1f: lanes_0_03_set(0x800);
            0x3 &&& 0x1f: lanes_0_03_set(0x700);
            0x4 &&& 0x1f: lanes_0_03_set(0x600);
            0x5 &&& 0x1f: lanes_0_03_set(0x500);
            0x6 &&& 0x1f: lanes_0_03_set(0x400);
            0x7 &&& 0x1f: lanes_0_03_set(0x300);
            0x8 &&& 0x1f: lanes_0_03_set(0x200);
            0x9 &&& 0x1f: lanes_0_03_set(0x100);
            0xa &&& 0x1f: lanes_0_03_set(0x0);
            0xb &&& 0x1f: lanes_0_03_set(0x1);
            0xc &&& 0x1f: lanes_0_03_set(0x2);
            0xd &&& 0x1f: lanes_0_03_set(0x3);
            0xe &&& 0x1f: lanes_0_03_set(0x4);
            0xf &&& 0x1f: lanes_0_03_set(0x5);
            0x10 &&& 0x1f: lanes_0_03_set(0x6);
            0x11 &&& 0x1f: lanes_0_03_set(0x7);
            0x12 &&& 0x1f: lanes_0_03_set(0x8);
            0x13 &&& 0x1f: lanes_0_03_set(0x9);
            0x14 &&& 0x1f: lanes_0_03_set(0xa);
            0x15 &&& 0x1f: lanes_0_03_set(0xb);
            0x16 &&& 0x1f: lanes_0_03_set(0xc);
            0x17 &&& 0x1f: lanes_0_03_set(0xd);
            0x18 &&& 0x1f: lanes_0_03_set(0xe);
            0x19 &&& 0x1f: lanes_0_03_set(0xf);
            0x1a &&& 0x1f: lanes_0_03_set(0x10);
            0x1b &&& 0x1f: lanes_0_03_set(0x11);
            0x1c &&& 0x1f: lanes_0_03_set(0x12);
            0x1d &&& 0x1f: lanes_0_03_set(0x13);
            0x1e &&& 0x1f: lanes_0_03_set(0x14);
            0x1f &&& 0x1f: lanes_0_03_set(0x15);
        }
    }

    @hidden
    action lanes_0_04_set(bit<16> value) {
        meta.shifts_04 = value;
    }
    @hidden
    table lanes_0_04 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d04) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_04_set; }
        const default_action = lanes_0_04_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_04_set(0x900);
            0x1 &&& 0x1f: lanes_0_04_set(0x900);
            0x2 &&& 0x1f: lanes_0_04_set(0x800);
            0x3 &&& 0x1f: lanes_0_04_set(0x700);
            0x4 &&& 0x1f: lanes_0_04_set(0x600);
            0x5 &&& 0x1f: lanes_0_04_set(0x500);
            0x6 &&& 0x1f: lanes_0_04_set(0x400);
            0x7 &&& 0x1f: lanes_0_04_set(0x300);
            0x8 &&& 0x1f: lanes_0_04_set(0x200);
            0x9 &&& 0x1f: lanes_0_04_set(0x100);
            0xa &&& 0x1f: lanes_0_04_set(0x0);
            0xb &&& 0x1f: lanes_0_04_set(0x1);
            0xc &&& 0x1f: lanes_0_04_set(0x2);
            0xd &&& 0x1f: lanes_0_04_set(0x3);
            0xe &&& 0x1f: lanes_0_04_set(0x4);
            0xf &&& 0x1f: lanes_0_04_set(0x5);
            0x10 &&& 0x1f: lanes_0_04_set(0x6);
            0x11 &&& 0x1f: lanes_0_04_set(0x7);
            0x12 &&& 0x1f: lanes_0_04_set(0x8);
            0x13 &&& 0x1f: lanes_0_04_set(0x9);
            0x14 &&& 0x1f: lanes_0_04_set(0xa);
            0x15 &&& 0x1f: lanes_0_04_set(0xb);
            0x16 &&& 0x1f: lanes_0_04_set(0xc);
            0x17 &&& 0x1f: lanes_0_04_set(0xd);
            0x18 &&& 0x1f: lanes_0_04_set(0xe);
            0x19 &&& 0x1f: lanes_0_04_set(0xf);
            0x1a &&& 0x1f: lanes_0_04_set(0x10);
            0x1b &&& 0x1f: lanes_0_04_set(0x11);
            0x1c &&& 0x1f: lanes_0_04_set(0x12);
            0x1d &&& 0x1f: lanes_0_04_set(0x13);
            0x1e &&& 0x1f: lanes_0_04_set(0x14);
            0x1f &&& 0x1f: lanes_0_04_set(0x15);
        }
    }

    @hidden
    action lanes_0_05_set(bit<16> value) {
        meta.shifts_05 = value;
    }
    @hidden
    table lanes_0_05 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d05) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_05_set; }
        const default_action = lanes_0_05_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_05_set(0x900);
            0x1 &&& 0x1f: lanes_0_05_set(0x900);
            0x2 &&& 0x1f: lanes_0_05_set(0x800);
            0x3 &&& 0x1f: lanes_0_05_set(0x700);
            0x4 &&& 0x1f: lanes_0_05_set(0x600);
            0x5 &&& 0x1f: lanes_0_05_set(0x500);
            0x6 &&& 0x1f: lanes_0_05_set(0x400);
            0x7 &&& 0x1f: lanes_0_05_set(0x300);
            0x8 &&& 0x1f: lanes_0_05_set(0x200);
            0x9 &&& 0x1f: lanes_0_05_set(0x100);
            0xa &&& 0x1f: lanes_0_05_set(0x0);
            0xb &&& 0x1f: lanes_0_05_set(0x1);
            0xc &&& 0x1f: lanes_0_05_set(0x2);
            0xd &&& 0x1f: lanes_0_05_set(0x3);
            0xe &&& 0x1f: lanes_0_05_set(0x4);
            0xf &&& 0x1f: lanes_0_05_set(0x5);
            0x10 &&& 0x1f: lanes_0_05_set(0x6);
            0x11 &&& 0x1f: lanes_0_05_set(0x7);
            0x12 &&& 0x1f: lanes_0_05_set(0x8);
            0x13 &&& 0x1f: lanes_0_05_set(0x9);
            0x14 &&& 0x1f: lanes_0_05_set(0xa);
            0x15 &&& 0x1f: lanes_0_05_set(0xb);
            0x16 &&& 0x1f: lanes_0_05_set(0xc);
            0x17 &&& 0x1f: lanes_0_05_set(0xd);
            0x18 &&& 0x1f: lanes_0_05_set(0xe);
            0x19 &&& 0x1f: lanes_0_05_set(0xf);
            0x1a &&& 0x1f: lanes_0_05_set(0x10);
            0x1b &&& 0x1f: lanes_0_05_set(0x11);
            0x1c &&& 0x1f: lanes_0_05_set(0x12);
            0x1d &&& 0x1f: lanes_0_05_set(0x13);
            0x1e &&& 0x1f: lanes_0_05_set(0x14);
            0x1f &&& 0x1f: lanes_0_05_set(0x15);
        }
    }

    @hidden
    action lanes_0_06_set(bit<16> value) {
        meta.shifts_06 = value;
    }
    @hidden
    table lanes_0_06 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d06) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_06_set; }
        const default_action = lanes_0_06_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_06_set(0x900);
            0x1 &&& 0x1f: lanes_0_06_set(0x900);
            0x2 &&& 0x1f: lanes_0_06_set(0x800);
            0x3 &&& 0x1f: lanes_0_06_set(0x700);
            0x4 &&& 0x1f: lanes_0_06_set(0x600);
            0x5 &&& 0x1f: lanes_0_06_set(0x500);
            0x6 &&& 0x1f: lanes_0_06_set(0x400);
            0x7 &&& 0x1f: lanes_0_06_set(0x300);
            0x8 &&& 0x1f: lanes_0_06_set(0x200);
            0x9 &&& 0x1f: lanes_0_06_set(0x100);
            0xa &&& 0x1f: lanes_0_06_set(0x0);
            0xb &&& 0x1f: lanes_0_06_set(0x1);
            0xc &&& 0x1f: lanes_0_06_set(0x2);
            0xd &&& 0x1f: lanes_0_06_set(0x3);
            0xe &&& 0x1f: lanes_0_06_set(0x4);
            0xf &&& 0x1f: lanes_0_06_set(0x5);
            0x10 &&& 0x1f: lanes_0_06_set(0x6);
            0x11 &&& 0x1f: lanes_0_06_set(0x7);
            0x12 &&& 0x1f: lanes_0_06_set(0x8);
            0x13 &&& 0x1f: lanes_0_06_set(0x9);
            0x14 &&& 0x1f: lanes_0_06_set(0xa);
            0x15 &&& 0x1f: lanes_0_06_set(0xb);
            0x16 &&& 0x1f: lanes_0_06_set(0xc);
            0x17 &&& 0x1f: lanes_0_06_set(0xd);
            0x18 &&& 0x1f: lanes_0_06_set(0xe);
            0x19 &&& 0x1f: lanes_0_06_set(0xf);
            0x1a &&& 0x1f: lanes_0_06_set(0x10);
            0x1b &&& 0x1f: lanes_0_06_set(0x11);
            0x1c &&& 0x1f: lanes_0_06_set(0x12);
            0x1d &&& 0x1f: lanes_0_06_set(0x13);
            0x1e &&& 0x1f: lanes_0_06_set(0x14);
            0x1f &&& 0x1f: lanes_0_06_set(0x15);
        }
    }

    @hidden
    action lanes_0_07_set(bit<16> value) {
        meta.shifts_07 = value;
    }
    @hidden
    table lanes_0_07 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d07) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_07_set; }
        const default_action = lanes_0_07_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_07_set(0x900);
            0x1 &&& 0x1f: lanes_0_07_set(0x900);
            0x2 &&& 0x1f: lanes_0_07_set(0x800);
            0x3 &&& 0x1f: lanes_0_07_set(0x700);
            0x4 &&& 0x1f: lanes_0_07_set(0x600);
            0x5 &&& 0x1f: lanes_0_07_set(0x500);
            0x6 &&& 0x1f: lanes_0_07_set(0x400);
            0x7 &&& 0x1f: lanes_0_07_set(0x300);
            0x8 &&& 0x1f: lanes_0_07_set(0x200);
            0x9 &&& 0x1f: lanes_0_07_set(0x100);
            0xa &&& 0x1f: lanes_0_07_set(0x0);
            0xb &&& 0x1f: lanes_0_07_set(0x1);
            0xc &&& 0x1f: lanes_0_07_set(0x2);
            0xd &&& 0x1f: lanes_0_07_set(0x3);
            0xe &&& 0x1f: lanes_0_07_set(0x4);
            0xf &&& 0x1f: lanes_0_07_set(0x5);
            0x10 &&& 0x1f: lanes_0_07_set(0x6);
            0x11 &&& 0x1f: lanes_0_07_set(0x7);
            0x12 &&& 0x1f: lanes_0_07_set(0x8);
            0x13 &&& 0x1f: lanes_0_07_set(0x9);
            0x14 &&& 0x1f: lanes_0_07_set(0xa);
            0x15 &&& 0x1f: lanes_0_07_set(0xb);
            0x16 &&& 0x1f: lanes_0_07_set(0xc);
            0x17 &&& 0x1f: lanes_0_07_set(0xd);
            0x18 &&& 0x1f: lanes_0_07_set(0xe);
            0x19 &&& 0x1f: lanes_0_07_set(0xf);
            0x1a &&& 0x1f: lanes_0_07_set(0x10);
            0x1b &&& 0x1f: lanes_0_07_set(0x11);
            0x1c &&& 0x1f: lanes_0_07_set(0x12);
            0x1d &&& 0x1f: lanes_0_07_set(0x13);
            0x1e &&& 0x1f: lanes_0_07_set(0x14);
            0x1f &&& 0x1f: lanes_0_07_set(0x15);
        }
    }

    @hidden
    action lanes_0_08_set(bit<16> value) {
        meta.shifts_08 = value;
    }
    @hidden
    table lanes_0_08 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d08) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_08_set; }
        const default_action = lanes_0_08_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_08_set(0x900);
            0x1 &&& 0x1f: lanes_0_08_set(0x900);
            0x2 &&& 0x1f: lanes_0_08_set(0x800);
            0x3 &&& 0x1f: lanes_0_08_set(0x700);
            0x4 &&& 0x1f: lanes_0_08_set(0x600);
            0x5 &&& 0x1f: lanes_0_08_set(0x500);
            0x6 &&& 0x1f: lanes_0_08_set(0x400);
            0x7 &&& 0x1f: lanes_0_08_set(0x300);
            0x8 &&& 0x1f: lanes_0_08_set(0x200);
            0x9 &&& 0x1f: lanes_0_08_set(0x100);
            0xa &&& 0x1f: lanes_0_08_set(0x0);
            0xb &&& 0x1f: lanes_0_08_set(0x1);
            0xc &&& 0x1f: lanes_0_08_set(0x2);
            0xd &&& 0x1f: lanes_0_08_set(0x3);
            0xe &&& 0x1f: lanes_0_08_set(0x4);
            0xf &&& 0x1f: lanes_0_08_set(0x5);
            0x10 &&& 0x1f: lanes_0_08_set(0x6);
            0x11 &&& 0x1f: lanes_0_08_set(0x7);
            0x12 &&& 0x1f: lanes_0_08_set(0x8);
            0x13 &&& 0x1f: lanes_0_08_set(0x9);
            0x14 &&& 0x1f: lanes_0_08_set(0xa);
            0x15 &&& 0x1f: lanes_0_08_set(0xb);
            0x16 &&& 0x1f: lanes_0_08_set(0xc);
            0x17 &&& 0x1f: lanes_0_08_set(0xd);
            0x18 &&& 0x1f: lanes_0_08_set(0xe);
            0x19 &&& 0x1f: lanes_0_08_set(0xf);
            0x1a &&& 0x1f: lanes_0_08_set(0x10);
            0x1b &&& 0x1f: lanes_0_08_set(0x11);
            0x1c &&& 0x1f: lanes_0_08_set(0x12);
            0x1d &&& 0x1f: lanes_0_08_set(0x13);
            0x1e &&& 0x1f: lanes_0_08_set(0x14);
            0x1f &&& 0x1f: lanes_0_08_set(0x15);
        }
    }

    @hidden
    action lanes_0_09_set(bit<16> value) {
        meta.shifts_09 = value;
    }
    @hidden
    table lanes_0_09 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d09) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_09_set; }
        const default_action = lanes_0_09_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_09_set(0x900);
            0x1 &&& 0x1f: lanes_0_09_set(0x900);
            0x2 &&& 0x1f: lanes_0_09_set(0x800);
            0x3 &&& 0x1f: lanes_0_09_set(0x700);
            0x4 &&& 0x1f: lanes_0_09_set(0x600);
            0x5 &&& 0x1f: lanes_0_09_set(0x500);
            0x6 &&& 0x1f: lanes_0_09_set(0x400);
            0x7 &&& 0x1f: lanes_0_09_set(0x300);
            0x8 &&& 0x1f: lanes_0_09_set(0x200);
            0x9 &&& 0x1f: lanes_0_09_set(0x100);
            0xa &&& 0x1f: lanes_0_09_set(0x0);
            0xb &&& 0x1f: lanes_0_09_set(0x1);
            0xc &&& 0x1f: lanes_0_09_set(0x2);
            0xd &&& 0x1f: lanes_0_09_set(0x3);
            0xe &&& 0x1f: lanes_0_09_set(0x4);
            0xf &&& 0x1f: lanes_0_09_set(0x5);
            0x10 &&& 0x1f: lanes_0_09_set(0x6);
            0x11 &&& 0x1f: lanes_0_09_set(0x7);
            0x12 &&& 0x1f: lanes_0_09_set(0x8);
            0x13 &&& 0x1f: lanes_0_09_set(0x9);
            0x14 &&& 0x1f: lanes_0_09_set(0xa);
            0x15 &&& 0x1f: lanes_0_09_set(0xb);
            0x16 &&& 0x1f: lanes_0_09_set(0xc);
            0x17 &&& 0x1f: lanes_0_09_set(0xd);
            0x18 &&& 0x1f: lanes_0_09_set(0xe);
            0x19 &&& 0x1f: lanes_0_09_set(0xf);
            0x1a &&& 0x1f: lanes_0_09_set(0x10);
            0x1b &&& 0x1f: lanes_0_09_set(0x11);
            0x1c &&& 0x1f: lanes_0_09_set(0x12);
            0x1d &&& 0x1f: lanes_0_09_set(0x13);
            0x1e &&& 0x1f: lanes_0_09_set(0x14);
            0x1f &&& 0x1f: lanes_0_09_set(0x15);
        }
    }

    @hidden
    action lanes_0_10_set(bit<16> value) {
        meta.shifts_10 = value;
    }
    @hidden
    table lanes_0_10 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d10) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_10_set; }
        const default_action = lanes_0_10_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_10_set(0x900);
            0x1 &&& 0x1f: lanes_0_10_set(0x900);
            0x2 &&& 0x1f: lanes_0_10_set(0x800);
            0x3 &&& 0x1f: lanes_0_10_set(0x700);
            0x4 &&& 0x1f: lanes_0_10_set(0x600);
            0x5 &&& 0x1f: lanes_0_10_set(0x500);
            0x6 &&& 0x1f: lanes_0_10_set(0x400);
            0x7 &&& 0x1f: lanes_0_10_set(0x300);
            0x8 &&& 0x1f: lanes_0_10_set(0x200);
            0x9 &&& 0x1f: lanes_0_10_set(0x100);
            0xa &&& 0x1f: lanes_0_10_set(0x0);
            0xb &&& 0x1f: lanes_0_10_set(0x1);
            0xc &&& 0x1f: lanes_0_10_set(0x2);
            0xd &&& 0x1f: lanes_0_10_set(0x3);
            0xe &&& 0x1f: lanes_0_10_set(0x4);
            0xf &&& 0x1f: lanes_0_10_set(0x5);
            0x10 &&& 0x1f: lanes_0_10_set(0x6);
            0x11 &&& 0x1f: lanes_0_10_set(0x7);
            0x12 &&& 0x1f: lanes_0_10_set(0x8);
            0x13 &&& 0x1f: lanes_0_10_set(0x9);
            0x14 &&& 0x1f: lanes_0_10_set(0xa);
            0x15 &&& 0x1f: lanes_0_10_set(0xb);
            0x16 &&& 0x1f: lanes_0_10_set(0xc);
            0x17 &&& 0x1f: lanes_0_10_set(0xd);
            0x18 &&& 0x1f: lanes_0_10_set(0xe);
            0x19 &&& 0x1f: lanes_0_10_set(0xf);
            0x1a &&& 0x1f: lanes_0_10_set(0x10);
            0x1b &&& 0x1f: lanes_0_10_set(0x11);
            0x1c &&& 0x1f: lanes_0_10_set(0x12);
            0x1d &&& 0x1f: lanes_0_10_set(0x13);
            0x1e &&& 0x1f: lanes_0_10_set(0x14);
            0x1f &&& 0x1f: lanes_0_10_set(0x15);
        }
    }

    @hidden
    action lanes_0_11_set(bit<16> value) {
        meta.shifts_11 = value;
    }
    @hidden
    table lanes_0_11 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d11) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_11_set; }
        const default_action = lanes_0_11_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_11_set(0x900);
            0x1 &&& 0x1f: lanes_0_11_set(0x900);
            0x2 &&& 0x1f: lanes_0_11_set(0x800);
            0x3 &&& 0x1f: lanes_0_11_set(0x700);
            0x4 &&& 0x1f: lanes_0_11_set(0x600);
            0x5 &&& 0x1f: lanes_0_11_set(0x500);
            0x6 &&& 0x1f: lanes_0_11_set(0x400);
            0x7 &&& 0x1f: lanes_0_11_set(0x300);
            0x8 &&& 0x1f: lanes_0_11_set(0x200);
            0x9 &&& 0x1f: lanes_0_11_set(0x100);
            0xa &&& 0x1f: lanes_0_11_set(0x0);
            0xb &&& 0x1f: lanes_0_11_set(0x1);
            0xc &&& 0x1f: lanes_0_11_set(0x2);
            0xd &&& 0x1f: lanes_0_11_set(0x3);
            0xe &&& 0x1f: lanes_0_11_set(0x4);
            0xf &&& 0x1f: lanes_0_11_set(0x5);
            0x10 &&& 0x1f: lanes_0_11_set(0x6);
            0x11 &&& 0x1f: lanes_0_11_set(0x7);
            0x12 &&& 0x1f: lanes_0_11_set(0x8);
            0x13 &&& 0x1f: lanes_0_11_set(0x9);
            0x14 &&& 0x1f: lanes_0_11_set(0xa);
            0x15 &&& 0x1f: lanes_0_11_set(0xb);
            0x16 &&& 0x1f: lanes_0_11_set(0xc);
            0x17 &&& 0x1f: lanes_0_11_set(0xd);
            0x18 &&& 0x1f: lanes_0_11_set(0xe);
            0x19 &&& 0x1f: lanes_0_11_set(0xf);
            0x1a &&& 0x1f: lanes_0_11_set(0x10);
            0x1b &&& 0x1f: lanes_0_11_set(0x11);
            0x1c &&& 0x1f: lanes_0_11_set(0x12);
            0x1d &&& 0x1f: lanes_0_11_set(0x13);
            0x1e &&& 0x1f: lanes_0_11_set(0x14);
            0x1f &&& 0x1f: lanes_0_11_set(0x15);
        }
    }

    @hidden
    action lanes_0_12_set(bit<16> value) {
        meta.shifts_12 = value;
    }
    @hidden
    table lanes_0_12 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d12) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_12_set; }
        const default_action = lanes_0_12_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_12_set(0x900);
            0x1 &&& 0x1f: lanes_0_12_set(0x900);
            0x2 &&& 0x1f: lanes_0_12_set(0x800);
            0x3 &&& 0x1f: lanes_0_12_set(0x700);
            0x4 &&& 0x1f: lanes_0_12_set(0x600);
            0x5 &&& 0x1f: lanes_0_12_set(0x500);
            0x6 &&& 0x1f: lanes_0_12_set(0x400);
            0x7 &&& 0x1f: lanes_0_12_set(0x300);
            0x8 &&& 0x1f: lanes_0_12_set(0x200);
            0x9 &&& 0x1f: lanes_0_12_set(0x100);
            0xa &&& 0x1f: lanes_0_12_set(0x0);
            0xb &&& 0x1f: lanes_0_12_set(0x1);
            0xc &&& 0x1f: lanes_0_12_set(0x2);
            0xd &&& 0x1f: lanes_0_12_set(0x3);
            0xe &&& 0x1f: lanes_0_12_set(0x4);
            0xf &&& 0x1f: lanes_0_12_set(0x5);
            0x10 &&& 0x1f: lanes_0_12_set(0x6);
            0x11 &&& 0x1f: lanes_0_12_set(0x7);
            0x12 &&& 0x1f: lanes_0_12_set(0x8);
            0x13 &&& 0x1f: lanes_0_12_set(0x9);
            0x14 &&& 0x1f: lanes_0_12_set(0xa);
            0x15 &&& 0x1f: lanes_0_12_set(0xb);
            0x16 &&& 0x1f: lanes_0_12_set(0xc);
            0x17 &&& 0x1f: lanes_0_12_set(0xd);
            0x18 &&& 0x1f: lanes_0_12_set(0xe);
            0x19 &&& 0x1f: lanes_0_12_set(0xf);
            0x1a &&& 0x1f: lanes_0_12_set(0x10);
            0x1b &&& 0x1f: lanes_0_12_set(0x11);
            0x1c &&& 0x1f: lanes_0_12_set(0x12);
            0x1d &&& 0x1f: lanes_0_12_set(0x13);
            0x1e &&& 0x1f: lanes_0_12_set(0x14);
            0x1f &&& 0x1f: lanes_0_12_set(0x15);
        }
    }

    @hidden
    action lanes_0_13_set(bit<16> value) {
        meta.shifts_13 = value;
    }
    @hidden
    table lanes_0_13 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d13) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_13_set; }
        const default_action = lanes_0_13_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_13_set(0x900);
            0x1 &&& 0x1f: lanes_0_13_set(0x900);
            0x2 &&& 0x1f: lanes_0_13_set(0x800);
            0x3 &&& 0x1f: lanes_0_13_set(0x700);
            0x4 &&& 0x1f: lanes_0_13_set(0x600);
            0x5 &&& 0x1f: lanes_0_13_set(0x500);
            0x6 &&& 0x1f: lanes_0_13_set(0x400);
            0x7 &&& 0x1f: lanes_0_13_set(0x300);
            0x8 &&& 0x1f: lanes_0_13_set(0x200);
            0x9 &&& 0x1f: lanes_0_13_set(0x100);
            0xa &&& 0x1f: lanes_0_13_set(0x0);
            0xb &&& 0x1f: lanes_0_13_set(0x1);
            0xc &&& 0x1f: lanes_0_13_set(0x2);
            0xd &&& 0x1f: lanes_0_13_set(0x3);
            0xe &&& 0x1f: lanes_0_13_set(0x4);
            0xf &&& 0x1f: lanes_0_13_set(0x5);
            0x10 &&& 0x1f: lanes_0_13_set(0x6);
            0x11 &&& 0x1f: lanes_0_13_set(0x7);
            0x12 &&& 0x1f: lanes_0_13_set(0x8);
            0x13 &&& 0x1f: lanes_0_13_set(0x9);
            0x14 &&& 0x1f: lanes_0_13_set(0xa);
            0x15 &&& 0x1f: lanes_0_13_set(0xb);
            0x16 &&& 0x1f: lanes_0_13_set(0xc);
            0x17 &&& 0x1f: lanes_0_13_set(0xd);
            0x18 &&& 0x1f: lanes_0_13_set(0xe);
            0x19 &&& 0x1f: lanes_0_13_set(0xf);
            0x1a &&& 0x1f: lanes_0_13_set(0x10);
            0x1b &&& 0x1f: lanes_0_13_set(0x11);
            0x1c &&& 0x1f: lanes_0_13_set(0x12);
            0x1d &&& 0x1f: lanes_0_13_set(0x13);
            0x1e &&& 0x1f: lanes_0_13_set(0x14);
            0x1f &&& 0x1f: lanes_0_13_set(0x15);
        }
    }

    @hidden
    action lanes_0_14_set(bit<16> value) {
        meta.shifts_14 = value;
    }
    @hidden
    table lanes_0_14 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d14) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_14_set; }
        const default_action = lanes_0_14_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_14_set(0x900);
            0x1 &&& 0x1f: lanes_0_14_set(0x900);
            0x2 &&& 0x1f: lanes_0_14_set(0x800);
            0x3 &&& 0x1f: lanes_0_14_set(0x700);
            0x4 &&& 0x1f: lanes_0_14_set(0x600);
            0x5 &&& 0x1f: lanes_0_14_set(0x500);
            0x6 &&& 0x1f: lanes_0_14_set(0x400);
            0x7 &&& 0x1f: lanes_0_14_set(0x300);
            0x8 &&& 0x1f: lanes_0_14_set(0x200);
            0x9 &&& 0x1f: lanes_0_14_set(0x100);
            0xa &&& 0x1f: lanes_0_14_set(0x0);
            0xb &&& 0x1f: lanes_0_14_set(0x1);
            0xc &&& 0x1f: lanes_0_14_set(0x2);
            0xd &&& 0x1f: lanes_0_14_set(0x3);
            0xe &&& 0x1f: lanes_0_14_set(0x4);
            0xf &&& 0x1f: lanes_0_14_set(0x5);
            0x10 &&& 0x1f: lanes_0_14_set(0x6);
            0x11 &&& 0x1f: lanes_0_14_set(0x7);
            0x12 &&& 0x1f: lanes_0_14_set(0x8);
            0x13 &&& 0x1f: lanes_0_14_set(0x9);
            0x14 &&& 0x1f: lanes_0_14_set(0xa);
            0x15 &&& 0x1f: lanes_0_14_set(0xb);
            0x16 &&& 0x1f: lanes_0_14_set(0xc);
            0x17 &&& 0x1f: lanes_0_14_set(0xd);
            0x18 &&& 0x1f: lanes_0_14_set(0xe);
            0x19 &&& 0x1f: lanes_0_14_set(0xf);
            0x1a &&& 0x1f: lanes_0_14_set(0x10);
            0x1b &&& 0x1f: lanes_0_14_set(0x11);
            0x1c &&& 0x1f: lanes_0_14_set(0x12);
            0x1d &&& 0x1f: lanes_0_14_set(0x13);
            0x1e &&& 0x1f: lanes_0_14_set(0x14);
            0x1f &&& 0x1f: lanes_0_14_set(0x15);
        }
    }

    @hidden
    action lanes_0_15_set(bit<16> value) {
        meta.shifts_15 = value;
    }
    @hidden
    table lanes_0_15 {
        key = { (bit<5>)((((bit<32>)(hdr.lanes.d15) >> 8w0xa) & 32w0x1f)): ternary @name("half_shift"); }
        actions = { lanes_0_15_set; }
        const default_action = lanes_0_15_set(0x0);
        const entries = {
            0x0 &&& 0x1f: lanes_0_15_set(0x900);
            0x1 &&& 0x1f: lanes_0_15_set(0x900);
            0x2 &&& 0x1f: lanes_0_15_set(0x800);
            0x3 &&& 0x1f: lanes_0_15_set(0x700);
            0x4 &&& 0x1f: lanes_0_15_set(0x600);
            0x5 &&& 0x1f: lanes_0_15_set(0x500);
            0x6 &&& 0x1f: lanes_0_15_set(0x400);
            0x7 &&& 0x1f: lanes_0_15_set(0x300);
            0x8 &&& 0x1f: lanes_0_15_set(0x200);
            0x9 &&& 0x1f: lanes_0_15_set(0x100);
            0xa &&& 0x1f: lanes_0_15_set(0x0);
            0xb &&& 0x1f: lanes_0_15_set(0x1);
            0xc &&& 0x1f: lanes_0_15_set(0x2);
            0xd &&& 0x1f: lanes_0_15_set(0x3);
            0xe &&& 0x1f: lanes_0_15_set(0x4);
            0xf &&& 0x1f: lanes_0_15_set(0x5);
            0x10 &&& 0x1f: lanes_0_15_set(0x6);
            0x11 &&& 0x1f: lanes_0_15_set(0x7);
            0x12 &&& 0x1f: lanes_0_15_set(0x8);
            0x13 &&& 0x1f: lanes_0_15_set(0x9);
            0x14 &&& 0x1f: lanes_0_15_set(0xa);
            0x15 &&& 0x1f: lanes_0_15_set(0xb);
            0x16 &&& 0x1f: lanes_0_15_set(0xc);
            0x17 &&& 0x1f: lanes_0_15_set(0xd);
            0x18 &&& 0x1f: lanes_0_15_set(0xe);
            0x19 &&& 0x1f: lanes_0_15_set(0xf);
            0x1a &&& 0x1f: lanes_0_15_set(0x10);
            0x1b &&& 0x1f: lanes_0_15_set(0x11);
            0x1c &&& 0x1f: lanes_0_15_set(0x12);
            0x1d &&& 0x1f: lanes_0_15_set(0x13);
            0x1e &&& 0x1f: lanes_0_15_set(0x14);
            0x1f &&& 0x1f: lanes_0_15_set(0x15);
        }
    }

    @hidden
    action lanes_1() {
        meta.up_shift_00 = (bit<8>)(meta.shifts_00);
        meta.up_shift_01 = (bit<8>)(meta.shifts_01);
        meta.up_shift_02 = (bit<8>)(meta.shifts_02);
        meta.up_shift_03 = (bit<8>)(meta.shifts_03);
        meta.up_shift_04 = (bit<8>)(meta.shifts_04);
        meta.up_shift_05 = (bit<8>)(meta.shifts_05);
        meta.up_shift_06 = (bit<8>)(meta.shifts_06);
        meta.up_shift_07 = (bit<8>)(meta.shifts_07);
        meta.up_shift_08 = (bit<8>)(meta.shifts_08);
        meta.up_shift_09 = (bit<8>)(meta.shifts_09);
        meta.up_shift_10 = (bit<8>)(meta.shifts_10);
        meta.up_shift_11 = (bit<8>)(meta.shifts_11);
        meta.up_shift_12 = (bit<8>)(meta.shifts_12);
        meta.up_shift_13 = (bit<8>)(meta.shifts_13);
        meta.up_shift_14 = (bit<8>)(meta.shifts_14);
        meta.up_shift_15 = (bit<8>)(meta.shifts_15);
    }

    @hidden
    action lanes_2() {
        meta.down_shift_00 = (bit<8>)((meta.shifts_00 >> 8w0x8));
        meta.down_shift_01 = (bit<8>)((meta.shifts_01 >> 8w0x8));
        meta.down_shift_02 = (bit<8>)((meta.shifts_02 >> 8w0x8));
        meta.down_shift_03 = (bit<8>)((meta.shifts_03 >> 8w0x8));
        meta.down_shift_04 = (bit<8>)((meta.shifts_04 >> 8w0x8));
        meta.down_shift_05 = (bit<8>)((meta.shifts_05 >> 8w0x8));
        meta.down_shift_06 = (bit<8>)((meta.shifts_06 >> 8w0x8));
        meta.down_shift_07 = (bit<8>)((meta.shifts_07 >> 8w0x8));
        meta.down_shift_08 = (bit<8>)((meta.shifts_08 >> 8w0x8));
        meta.down_shift_09 = (bit<8>)((meta.shifts_09 >> 8w0x8));
        meta.down_shift_10 = (bit<8>)((meta.shifts_10 >> 8w0x8));
        meta.down_shift_11 = (bit<8>)((meta.shifts_11 >> 8w0x8));
        meta.down_shift_12 = (bit<8>)((meta.shifts_12 >> 8w0x8));
        meta.down_shift_13 = (bit<8>)((meta.shifts_13 >> 8w0x8));
        meta.down_shift_14 = (bit<8>)((meta.shifts_14 >> 8w0x8));
        meta.down_shift_15 = (bit<8>)((meta.shifts_15 >> 8w0x8));
    }

    @hidden
    action lanes_3() {
        meta.magnitude_00 = (((bit<32>)(hdr.lanes.d00) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d00) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_01 = (((bit<32>)(hdr.lanes.d01) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d01) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_02 = (((bit<32>)(hdr.lanes.d02) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d02) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_03 = (((bit<32>)(hdr.lanes.d03) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d03) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_04 = (((bit<32>)(hdr.lanes.d04) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d04) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_05 = (((bit<32>)(hdr.lanes.d05) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d05) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_06 = (((bit<32>)(hdr.lanes.d06) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d06) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_07 = (((bit<32>)(hdr.lanes.d07) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d07) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_08 = (((bit<32>)(hdr.lanes.d08) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d08) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_09 = (((bit<32>)(hdr.lanes.d09) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d09) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_10 = (((bit<32>)(hdr.lanes.d10) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d10) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_11 = (((bit<32>)(hdr.lanes.d11) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d11) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_12 = (((bit<32>)(hdr.lanes.d12) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d12) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_13 = (((bit<32>)(hdr.lanes.d13) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d13) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_14 = (((bit<32>)(hdr.lanes.d14) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d14) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
        meta.magnitude_15 = (((bit<32>)(hdr.lanes.d15) >> 8w0x0) & 32w0x3ff) | (((((bit<32>)(hdr.lanes.d15) >> 8w0xa) & 32w0x1f) != 32w0x0) ? 32w0x400 : 32w0x0);
    }

    @hidden
    action lanes_4() {
        meta.value_00 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d00) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_00 == 8w0x0) ? meta.magnitude_00 : ((((meta.magnitude_00 + ((32w0x1 << meta.down_shift_00) >> 8w0x1)) + ((meta.magnitude_00 >> meta.down_shift_00) & 32w0x1)) - 32w0x1) >> meta.down_shift_00)) << meta.up_shift_00)) : (((meta.down_shift_00 == 8w0x0) ? meta.magnitude_00 : ((((meta.magnitude_00 + ((32w0x1 << meta.down_shift_00) >> 8w0x1)) + ((meta.magnitude_00 >> meta.down_shift_00) & 32w0x1)) - 32w0x1) >> meta.down_shift_00)) << meta.up_shift_00)) : (bit<32>)(hdr.lanes.d00);
        meta.value_01 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d01) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_01 == 8w0x0) ? meta.magnitude_01 : ((((meta.magnitude_01 + ((32w0x1 << meta.down_shift_01) >> 8w0x1)) + ((meta.magnitude_01 >> meta.down_shift_01) & 32w0x1)) - 32w0x1) >> meta.down_shift_01)) << meta.up_shift_01)) : (((meta.down_shift_01 == 8w0x0) ? meta.magnitude_01 : ((((meta.magnitude_01 + ((32w0x1 << meta.down_shift_01) >> 8w0x1)) + ((meta.magnitude_01 >> meta.down_shift_01) & 32w0x1)) - 32w0x1) >> meta.down_shift_01)) << meta.up_shift_01)) : (bit<32>)(hdr.lanes.d01);
        meta.value_02 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d02) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_02 == 8w0x0) ? meta.magnitude_02 : ((((meta.magnitude_02 + ((32w0x1 << meta.down_shift_02) >> 8w0x1)) + ((meta.magnitude_02 >> meta.down_shift_02) & 32w0x1)) - 32w0x1) >> meta.down_shift_02)) << meta.up_shift_02)) : (((meta.down_shift_02 == 8w0x0) ? meta.magnitude_02 : ((((meta.magnitude_02 + ((32w0x1 << meta.down_shift_02) >> 8w0x1)) + ((meta.magnitude_02 >> meta.down_shift_02) & 32w0x1)) - 32w0x1) >> meta.down_shift_02)) << meta.up_shift_02)) : (bit<32>)(hdr.lanes.d02);
        meta.value_03 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d03) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_03 == 8w0x0) ? meta.magnitude_03 : ((((meta.magnitude_03 + ((32w0x1 << meta.down_shift_03) >> 8w0x1)) + ((meta.magnitude_03 >> meta.down_shift_03) & 32w0x1)) - 32w0x1) >> meta.down_shift_03)) << meta.up_shift_03)) : (((meta.down_shift_03 == 8w0x0) ? meta.magnitude_03 : ((((meta.magnitude_03 + ((32w0x1 << meta.down_shift_03) >> 8w0x1)) + ((meta.magnitude_03 >> meta.down_shift_03) & 32w0x1)) - 32w0x1) >> meta.down_shift_03)) << meta.up_shift_03)) : (bit<32>)(hdr.lanes.d03);
        meta.value_04 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d04) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_04 == 8w0x0) ? meta.magnitude_04 : ((((meta.magnitude_04 + ((32w0x1 << meta.down_shift_04) >> 8w0x1)) + ((meta.magnitude_04 >> meta.down_shift_04) & 32w0x1)) - 32w0x1) >> meta.down_shift_04)) << meta.up_shift_04)) : (((meta.down_shift_04 == 8w0x0) ? meta.magnitude_04 : ((((meta.magnitude_04 + ((32w0x1 << meta.down_shift_04) >> 8w0x1)) + ((meta.magnitude_04 >> meta.down_shift_04) & 32w0x1)) - 32w0x1) >> meta.down_shift_04)) << meta.up_shift_04)) : (bit<32>)(hdr.lanes.d04);
        meta.value_05 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d05) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_05 == 8w0x0) ? meta.magnitude_05 : ((((meta.magnitude_05 + ((32w0x1 << meta.down_shift_05) >> 8w0x1)) + ((meta.magnitude_05 >> meta.down_shift_05) & 32w0x1)) - 32w0x1) >> meta.down_shift_05)) << meta.up_shift_05)) : (((meta.down_shift_05 == 8w0x0) ? meta.magnitude_05 : ((((meta.magnitude_05 + ((32w0x1 << meta.down_shift_05) >> 8w0x1)) + ((meta.magnitude_05 >> meta.down_shift_05) & 32w0x1)) - 32w0x1) >> meta.down_shift_05)) << meta.up_shift_05)) : (bit<32>)(hdr.lanes.d05);
        meta.value_06 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d06) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_06 == 8w0x0) ? meta.magnitude_06 : ((((meta.magnitude_06 + ((32w0x1 << meta.down_shift_06) >> 8w0x1)) + ((meta.magnitude_06 >> meta.down_shift_06) & 32w0x1)) - 32w0x1) >> meta.down_shift_06)) << meta.up_shift_06)) : (((meta.down_shift_06 == 8w0x0) ? meta.magnitude_06 : ((((meta.magnitude_06 + ((32w0x1 << meta.down_shift_06) >> 8w0x1)) + ((meta.magnitude_06 >> meta.down_shift_06) & 32w0x1)) - 32w0x1) >> meta.down_shift_06)) << meta.up_shift_06)) : (bit<32>)(hdr.lanes.d06);
        meta.value_07 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d07) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_07 == 8w0x0) ? meta.magnitude_07 : ((((meta.magnitude_07 + ((32w0x1 << meta.down_shift_07) >> 8w0x1)) + ((meta.magnitude_07 >> meta.down_shift_07) & 32w0x1)) - 32w0x1) >> meta.down_shift_07)) << meta.up_shift_07)) : (((meta.down_shift_07 == 8w0x0) ? meta.magnitude_07 : ((((meta.magnitude_07 + ((32w0x1 << meta.down_shift_07) >> 8w0x1)) + ((meta.magnitude_07 >> meta.down_shift_07) & 32w0x1)) - 32w0x1) >> meta.down_shift_07)) << meta.up_shift_07)) : (bit<32>)(hdr.lanes.d07);
        meta.value_08 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d08) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_08 == 8w0x0) ? meta.magnitude_08 : ((((meta.magnitude_08 + ((32w0x1 << meta.down_shift_08) >> 8w0x1)) + ((meta.magnitude_08 >> meta.down_shift_08) & 32w0x1)) - 32w0x1) >> meta.down_shift_08)) << meta.up_shift_08)) : (((meta.down_shift_08 == 8w0x0) ? meta.magnitude_08 : ((((meta.magnitude_08 + ((32w0x1 << meta.down_shift_08) >> 8w0x1)) + ((meta.magnitude_08 >> meta.down_shift_08) & 32w0x1)) - 32w0x1) >> meta.down_shift_08)) << meta.up_shift_08)) : (bit<32>)(hdr.lanes.d08);
        meta.value_09 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d09) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_09 == 8w0x0) ? meta.magnitude_09 : ((((meta.magnitude_09 + ((32w0x1 << meta.down_shift_09) >> 8w0x1)) + ((meta.magnitude_09 >> meta.down_shift_09) & 32w0x1)) - 32w0x1) >> meta.down_shift_09)) << meta.up_shift_09)) : (((meta.down_shift_09 == 8w0x0) ? meta.magnitude_09 : ((((meta.magnitude_09 + ((32w0x1 << meta.down_shift_09) >> 8w0x1)) + ((meta.magnitude_09 >> meta.down_shift_09) & 32w0x1)) - 32w0x1) >> meta.down_shift_09)) << meta.up_shift_09)) : (bit<32>)(hdr.lanes.d09);
        meta.value_10 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d10) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_10 == 8w0x0) ? meta.magnitude_10 : ((((meta.magnitude_10 + ((32w0x1 << meta.down_shift_10) >> 8w0x1)) + ((meta.magnitude_10 >> meta.down_shift_10) & 32w0x1)) - 32w0x1) >> meta.down_shift_10)) << meta.up_shift_10)) : (((meta.down_shift_10 == 8w0x0) ? meta.magnitude_10 : ((((meta.magnitude_10 + ((32w0x1 << meta.down_shift_10) >> 8w0x1)) + ((meta.magnitude_10 >> meta.down_shift_10) & 32w0x1)) - 32w0x1) >> meta.down_shift_10)) << meta.up_shift_10)) : (bit<32>)(hdr.lanes.d10);
        meta.value_11 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d11) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_11 == 8w0x0) ? meta.magnitude_11 : ((((meta.magnitude_11 + ((32w0x1 << meta.down_shift_11) >> 8w0x1)) + ((meta.magnitude_11 >> meta.down_shift_11) & 32w0x1)) - 32w0x1) >> meta.down_shift_11)) << meta.up_shift_11)) : (((meta.down_shift_11 == 8w0x0) ? meta.magnitude_11 : ((((meta.magnitude_11 + ((32w0x1 << meta.down_shift_11) >> 8w0x1)) + ((meta.magnitude_11 >> meta.down_shift_11) & 32w0x1)) - 32w0x1) >> meta.down_shift_11)) << meta.up_shift_11)) : (bit<32>)(hdr.lanes.d11);
        meta.value_12 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d12) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_12 == 8w0x0) ? meta.magnitude_12 : ((((meta.magnitude_12 + ((32w0x1 << meta.down_shift_12) >> 8w0x1)) + ((meta.magnitude_12 >> meta.down_shift_12) & 32w0x1)) - 32w0x1) >> meta.down_shift_12)) << meta.up_shift_12)) : (((meta.down_shift_12 == 8w0x0) ? meta.magnitude_12 : ((((meta.magnitude_12 + ((32w0x1 << meta.down_shift_12) >> 8w0x1)) + ((meta.magnitude_12 >> meta.down_shift_12) & 32w0x1)) - 32w0x1) >> meta.down_shift_12)) << meta.up_shift_12)) : (bit<32>)(hdr.lanes.d12);
        meta.value_13 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d13) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_13 == 8w0x0) ? meta.magnitude_13 : ((((meta.magnitude_13 + ((32w0x1 << meta.down_shift_13) >> 8w0x1)) + ((meta.magnitude_13 >> meta.down_shift_13) & 32w0x1)) - 32w0x1) >> meta.down_shift_13)) << meta.up_shift_13)) : (((meta.down_shift_13 == 8w0x0) ? meta.magnitude_13 : ((((meta.magnitude_13 + ((32w0x1 << meta.down_shift_13) >> 8w0x1)) + ((meta.magnitude_13 >> meta.down_shift_13) & 32w0x1)) - 32w0x1) >> meta.down_shift_13)) << meta.up_shift_13)) : (bit<32>)(hdr.lanes.d13);
        meta.value_14 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d14) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_14 == 8w0x0) ? meta.magnitude_14 : ((((meta.magnitude_14 + ((32w0x1 << meta.down_shift_14) >> 8w0x1)) + ((meta.magnitude_14 >> meta.down_shift_14) & 32w0x1)) - 32w0x1) >> meta.down_shift_14)) << meta.up_shift_14)) : (((meta.down_shift_14 == 8w0x0) ? meta.magnitude_14 : ((((meta.magnitude_14 + ((32w0x1 << meta.down_shift_14) >> 8w0x1)) + ((meta.magnitude_14 >> meta.down_shift_14) & 32w0x1)) - 32w0x1) >> meta.down_shift_14)) << meta.up_shift_14)) : (bit<32>)(hdr.lanes.d14);
        meta.value_15 = (hdr.netfold.op == 4w0x0) ? (((((bit<32>)(hdr.lanes.d15) >> 8w0xf) & 32w0x1) == 32w0x1) ? (32w0x0 - (((meta.down_shift_15 == 8w0x0) ? meta.magnitude_15 : ((((meta.magnitude_15 + ((32w0x1 << meta.down_shift_15) >> 8w0x1)) + ((meta.magnitude_15 >> meta.down_shift_15) & 32w0x1)) - 32w0x1) >> meta.down_shift_15)) << meta.up_shift_15)) : (((meta.down_shift_15 == 8w0x0) ? meta.magnitude_15 : ((((meta.magnitude_15 + ((32w0x1 << meta.down_shift_15) >> 8w0x1)) + ((meta.magnitude_15 >> meta.down_shift_15) & 32w0x1)) - 32w0x1) >> meta.down_shift_15)) << meta.up_shift_15)) : (bit<32>)(hdr.lanes.d15);
    }

    @hidden
    action lanes_5() {
        meta.magnitude_00 = (((meta.acc_00 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_00) : meta.acc_00;
        meta.magnitude_01 = (((meta.acc_01 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_01) : meta.acc_01;
        meta.magnitude_02 = (((meta.acc_02 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_02) : meta.acc_02;
        meta.magnitude_03 = (((meta.acc_03 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_03) : meta.acc_03;
        meta.magnitude_04 = (((meta.acc_04 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_04) : meta.acc_04;
        meta.magnitude_05 = (((meta.acc_05 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_05) : meta.acc_05;
        meta.magnitude_06 = (((meta.acc_06 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_06) : meta.acc_06;
        meta.magnitude_07 = (((meta.acc_07 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_07) : meta.acc_07;
        meta.magnitude_08 = (((meta.acc_08 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_08) : meta.acc_08;
        meta.magnitude_09 = (((meta.acc_09 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_09) : meta.acc_09;
        meta.magnitude_10 = (((meta.acc_10 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_10) : meta.acc_10;
        meta.magnitude_11 = (((meta.acc_11 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_11) : meta.acc_11;
        meta.magnitude_12 = (((meta.acc_12 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_12) : meta.acc_12;
        meta.magnitude_13 = (((meta.acc_13 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_13) : meta.acc_13;
        meta.magnitude_14 = (((meta.acc_14 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_14) : meta.acc_14;
        meta.magnitude_15 = (((meta.acc_15 >> 8w0x1f) & 32w0x1) == 32w0x1) ? (32w0x0 - meta.acc_15) : meta.acc_15;
    }

    @hidden
    action lanes_6_00_set(bit<8> value) {
        meta.up_shift_00 = value;
    }
    @hidden
    table lanes_6_00 {
        key = { meta.magnitude_00: ternary @name("leading"); }
        actions = { lanes_6_00_set; }
        const default_action = lanes_6_00_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_00_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_00_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_00_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_00_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_00_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_00_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_00_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_00_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_00_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_00_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_00_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_00_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_00_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_00_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_00_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_00_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_00_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_00_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_00_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_00_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_00_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_00_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_00_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_00_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_00_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_00_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_00_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_00_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_00_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_00_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_00_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_00_set(0x0);
        }
    }

    @hidden
    action lanes_6_01_set(bit<8> value) {
        meta.up_shift_01 = value;
    }
    @hidden
    table lanes_6_01 {
        key = { meta.magnitude_01: ternary @name("leading"); }
        actions = { lanes_6_01_set; }
        const default_action = lanes_6_01_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_01_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_01_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_01_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_01_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_01_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_01_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_01_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_01_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_01_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_01_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_01_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_01_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_01_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_01_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_01_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_01_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_01_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_01_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_01_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_01_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_01_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_01_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_01_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_01_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_01_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_01_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_01_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_01_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_01_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_01_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_01_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_01_set(0x0);
        }
    }

    @hidden
    action lanes_6_02_set(bit<8> value) {
        meta.up_shift_02 = value;
    }
    @hidden
    table lanes_6_02 {
        key = { meta.magnitude_02: ternary @name("leading"); }
        actions = { lanes_6_02_set; }
        const default_action = lanes_6_02_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_02_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_02_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_02_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_02_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_02_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_02_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_02_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_02_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_02_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_02_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_02_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_02_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_02_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_02_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_02_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_02_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_02_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_02_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_02_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_02_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_02_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_02_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_02_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_02_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_02_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_02_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_02_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_02_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_02_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_02_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_02_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_02_set(0x0);
        }
    }

    @hidden
    action lanes_6_03_set(bit<8> value) {
        meta.up_shift_03 = value;
    }
    @hidden
    table lanes_6_03 {
        key = { meta.magnitude_03: ternary @name("leading"); }
        actions = { lanes_6_03_set; }
        const default_action = lanes_6_03_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_03_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_03_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_03_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_03_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_03_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_03_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_03_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_03_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_03_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_03_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_03_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_03_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_03_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_03_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_03_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_03_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_03_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_03_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_03_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_03_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_03_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_03_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_03_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_03_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_03_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_03_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_03_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_03_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_03_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_03_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_03_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_03_set(0x0);
        }
    }

    @hidden
    action lanes_6_04_set(bit<8> value) {
        meta.up_shift_04 = value;
    }
    @hidden
    table lanes_6_04 {
        key = { meta.magnitude_04: ternary @name("leading"); }
        actions = { lanes_6_04_set; }
        const default_action = lanes_6_04_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_04_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_04_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_04_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_04_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_04_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_04_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_04_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_04_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_04_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_04_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_04_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_04_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_04_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_04_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_04_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_04_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_04_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_04_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_04_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_04_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_04_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_04_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_04_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_04_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_04_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_04_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_04_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_04_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_04_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_04_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_04_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_04_set(0x0);
        }
    }

    @hidden
    action lanes_6_05_set(bit<8> value) {
        meta.up_shift_05 = value;
    }
    @hidden
    table lanes_6_05 {
        key = { meta.magnitude_05: ternary @name("leading"); }
        actions = { lanes_6_05_set; }
        const default_action = lanes_6_05_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_05_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_05_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_05_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_05_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_05_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_05_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_05_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_05_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_05_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_05_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_05_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_05_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_05_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_05_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_05_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_05_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_05_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_05_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_05_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_05_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_05_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_05_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_05_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_05_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_05_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_05_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_05_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_05_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_05_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_05_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_05_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_05_set(0x0);
        }
    }

    @hidden
    action lanes_6_06_set(bit<8> value) {
        meta.up_shift_06 = value;
    }
    @hidden
    table lanes_6_06 {
        key = { meta.magnitude_06: ternary @name("leading"); }
        actions = { lanes_6_06_set; }
        const default_action = lanes_6_06_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_06_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_06_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_06_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_06_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_06_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_06_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_06_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_06_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_06_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_06_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_06_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_06_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_06_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_06_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_06_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_06_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_06_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_06_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_06_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_06_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_06_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_06_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_06_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_06_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_06_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_06_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_06_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_06_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_06_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_06_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_06_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_06_set(0x0);
        }
    }

    @hidden
    action lanes_6_07_set(bit<8> value) {
        meta.up_shift_07 = value;
    }
    @hidden
    table lanes_6_07 {
        key = { meta.magnitude_07: ternary @name("leading"); }
        actions = { lanes_6_07_set; }
        const default_action = lanes_6_07_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_07_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_07_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_07_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_07_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_07_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_07_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_07_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_07_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_07_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_07_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_07_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_07_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_07_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_07_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_07_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_07_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_07_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_07_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_07_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_07_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_07_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_07_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_07_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_07_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_07_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_07_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_07_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_07_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_07_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_07_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_07_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_07_set(0x0);
        }
    }

    @hidden
    action lanes_6_08_set(bit<8> value) {
        meta.up_shift_08 = value;
    }
    @hidden
    table lanes_6_08 {
        key = { meta.magnitude_08: ternary @name("leading"); }
        actions = { lanes_6_08_set; }
        const default_action = lanes_6_08_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_08_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_08_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_08_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_08_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_08_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_08_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_08_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_08_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_08_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_08_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_08_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_08_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_08_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_08_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_08_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_08_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_08_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_08_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_08_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_08_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_08_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_08_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_08_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_08_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_08_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_08_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_08_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_08_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_08_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_08_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_08_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_08_set(0x0);
        }
    }

    @hidden
    action lanes_6_09_set(bit<8> value) {
        meta.up_shift_09 = value;
    }
    @hidden
    table lanes_6_09 {
        key = { meta.magnitude_09: ternary @name("leading"); }
        actions = { lanes_6_09_set; }
        const default_action = lanes_6_09_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_09_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_09_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_09_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_09_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_09_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_09_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_09_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_09_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_09_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_09_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_09_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_09_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_09_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_09_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_09_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_09_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_09_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_09_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_09_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_09_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_09_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_09_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_09_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_09_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_09_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_09_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_09_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_09_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_09_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_09_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_09_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_09_set(0x0);
        }
    }

    @hidden
    action lanes_6_10_set(bit<8> value) {
        meta.up_shift_10 = value;
    }
    @hidden
    table lanes_6_10 {
        key = { meta.magnitude_10: ternary @name("leading"); }
        actions = { lanes_6_10_set; }
        const default_action = lanes_6_10_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_10_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_10_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_10_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_10_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_10_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_10_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_10_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_10_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_10_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_10_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_10_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_10_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_10_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_10_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_10_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_10_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_10_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_10_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_10_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_10_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_10_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_10_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_10_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_10_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_10_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_10_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_10_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_10_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_10_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_10_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_10_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_10_set(0x0);
        }
    }

    @hidden
    action lanes_6_11_set(bit<8> value) {
        meta.up_shift_11 = value;
    }
    @hidden
    table lanes_6_11 {
        key = { meta.magnitude_11: ternary @name("leading"); }
        actions = { lanes_6_11_set; }
        const default_action = lanes_6_11_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_11_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_11_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_11_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_11_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_11_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_11_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_11_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_11_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_11_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_11_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_11_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_11_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_11_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_11_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_11_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_11_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_11_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_11_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_11_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_11_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_11_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_11_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_11_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_11_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_11_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_11_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_11_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_11_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_11_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_11_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_11_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_11_set(0x0);
        }
    }

    @hidden
    action lanes_6_12_set(bit<8> value) {
        meta.up_shift_12 = value;
    }
    @hidden
    table lanes_6_12 {
        key = { meta.magnitude_12: ternary @name("leading"); }
        actions = { lanes_6_12_set; }
        const default_action = lanes_6_12_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_12_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_12_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_12_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_12_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_12_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_12_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_12_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_12_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_12_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_12_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_12_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_12_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_12_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_12_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_12_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_12_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_12_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_12_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_12_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_12_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_12_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_12_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_12_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_12_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_12_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_12_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_12_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_12_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_12_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_12_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_12_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_12_set(0x0);
        }
    }

    @hidden
    action lanes_6_13_set(bit<8> value) {
        meta.up_shift_13 = value;
    }
    @hidden
    table lanes_6_13 {
        key = { meta.magnitude_13: ternary @name("leading"); }
        actions = { lanes_6_13_set; }
        const default_action = lanes_6_13_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_13_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_13_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_13_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_13_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_13_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_13_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_13_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_13_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_13_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_13_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_13_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_13_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_13_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_13_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_13_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_13_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_13_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_13_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_13_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_13_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_13_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_13_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_13_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_13_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_13_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_13_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_13_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_13_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_13_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_13_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_13_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_13_set(0x0);
        }
    }

    @hidden
    action lanes_6_14_set(bit<8> value) {
        meta.up_shift_14 = value;
    }
    @hidden
    table lanes_6_14 {
        key = { meta.magnitude_14: ternary @name("leading"); }
        actions = { lanes_6_14_set; }
        const default_action = lanes_6_14_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_14_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_14_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_14_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_14_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_14_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_14_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_14_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_14_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_14_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_14_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_14_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_14_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_14_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_14_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_14_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_14_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_14_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_14_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_14_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_14_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_14_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_14_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_14_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_14_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_14_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_14_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_14_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_14_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_14_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_14_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_14_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_14_set(0x0);
        }
    }

    @hidden
    action lanes_6_15_set(bit<8> value) {
        meta.up_shift_15 = value;
    }
    @hidden
    table lanes_6_15 {
        key = { meta.magnitude_15: ternary @name("leading"); }
        actions = { lanes_6_15_set; }
        const default_action = lanes_6_15_set(0x0);
        const entries = {
            0x80000000 &&& 0x80000000: lanes_6_15_set(0x1f);
            0x40000000 &&& 0xc0000000: lanes_6_15_set(0x1e);
            0x20000000 &&& 0xe0000000: lanes_6_15_set(0x1d);
            0x10000000 &&& 0xf0000000: lanes_6_15_set(0x1c);
            0x8000000 &&& 0xf8000000: lanes_6_15_set(0x1b);
            0x4000000 &&& 0xfc000000: lanes_6_15_set(0x1a);
            0x2000000 &&& 0xfe000000: lanes_6_15_set(0x19);
            0x1000000 &&& 0xff000000: lanes_6_15_set(0x18);
            0x800000 &&& 0xff800000: lanes_6_15_set(0x17);
            0x400000 &&& 0xffc00000: lanes_6_15_set(0x16);
            0x200000 &&& 0xffe00000: lanes_6_15_set(0x15);
            0x100000 &&& 0xfff00000: lanes_6_15_set(0x14);
            0x80000 &&& 0xfff80000: lanes_6_15_set(0x13);
            0x40000 &&& 0xfffc0000: lanes_6_15_set(0x12);
            0x20000 &&& 0xfffe0000: lanes_6_15_set(0x11);
            0x10000 &&& 0xffff0000: lanes_6_15_set(0x10);
            0x8000 &&& 0xffff8000: lanes_6_15_set(0xf);
            0x4000 &&& 0xffffc000: lanes_6_15_set(0xe);
            0x2000 &&& 0xffffe000: lanes_6_15_set(0xd);
            0x1000 &&& 0xfffff000: lanes_6_15_set(0xc);
            0x800 &&& 0xfffff800: lanes_6_15_set(0xb);
            0x400 &&& 0xfffffc00: lanes_6_15_set(0xa);
            0x200 &&& 0xfffffe00: lanes_6_15_set(0x9);
            0x100 &&& 0xffffff00: lanes_6_15_set(0x8);
            0x80 &&& 0xffffff80: lanes_6_15_set(0x7);
            0x40 &&& 0xffffffc0: lanes_6_15_set(0x6);
            0x20 &&& 0xffffffe0: lanes_6_15_set(0x5);
            0x10 &&& 0xfffffff0: lanes_6_15_set(0x4);
            0x8 &&& 0xfffffff8: lanes_6_15_set(0x3);
            0x4 &&& 0xfffffffc: lanes_6_15_set(0x2);
            0x2 &&& 0xfffffffe: lanes_6_15_set(0x1);
            0x1 &&& 0xffffffff: lanes_6_15_set(0x0);
        }
    }

    @hidden
    action lanes_7() {
        meta.down_shift_00 = (meta.up_shift_00 > 8w0xa) ? (meta.up_shift_00 - 8w0xa) : 8w0x0;
        meta.down_shift_01 = (meta.up_shift_01 > 8w0xa) ? (meta.up_shift_01 - 8w0xa) : 8w0x0;
        meta.down_shift_02 = (meta.up_shift_02 > 8w0xa) ? (meta.up_shift_02 - 8w0xa) : 8w0x0;
        meta.down_shift_03 = (meta.up_shift_03 > 8w0xa) ? (meta.up_shift_03 - 8w0xa) : 8w0x0;
        meta.down_shift_04 = (meta.up_shift_04 > 8w0xa) ? (meta.up_shift_04 - 8w0xa) : 8w0x0;
        meta.down_shift_05 = (meta.up_shift_05 > 8w0xa) ? (meta.up_shift_05 - 8w0xa) : 8w0x0;
        meta.down_shift_06 = (meta.up_shift_06 > 8w0xa) ? (meta.up_shift_06 - 8w0xa) : 8w0x0;
        meta.down_shift_07 = (meta.up_shift_07 > 8w0xa) ? (meta.up_shift_07 - 8w0xa) : 8w0x0;
        meta.down_shift_08 = (meta.up_shift_08 > 8w0xa) ? (meta.up_shift_08 - 8w0xa) : 8w0x0;
        meta.down_shift_09 = (meta.up_shift_09 > 8w0xa) ? (meta.up_shift_09 - 8w0xa) : 8w0x0;
        meta.down_shift_10 = (meta.up_shift_10 > 8w0xa) ? (meta.up_shift_10 - 8w0xa) : 8w0x0;
        meta.down_shift_11 = (meta.up_shift_11 > 8w0xa) ? (meta.up_shift_11 - 8w0xa) : 8w0x0;
        meta.down_shift_12 = (meta.up_shift_12 > 8w0xa) ? (meta.up_shift_12 - 8w0xa) : 8w0x0;
        meta.down_shift_13 = (meta.up_shift_13 > 8w0xa) ? (meta.up_shift_13 - 8w0xa) : 8w0x0;
        meta.down_shift_14 = (meta.up_shift_14 > 8w0xa) ? (meta.up_shift_14 - 8w0xa) : 8w0x0;
        meta.down_shift_15 = (meta.up_shift_15 > 8w0xa) ? (meta.up_shift_15 - 8w0xa) : 8w0x0;
    }

    @hidden
    action lanes_8() {
        meta.value_00 = meta.magnitude_00 << ((8w0xa > meta.up_shift_00) ? (8w0xa - meta.up_shift_00) : 8w0x0);
        meta.value_01 = meta.magnitude_01 << ((8w0xa > meta.up_shift_01) ? (8w0xa - meta.up_shift_01) : 8w0x0);
        meta.value_02 = meta.magnitude_02 << ((8w0xa > meta.up_shift_02) ? (8w0xa - meta.up_shift_02) : 8w0x0);
        meta.value_03 = meta.magnitude_03 << ((8w0xa > meta.up_shift_03) ? (8w0xa - meta.up_shift_03) : 8w0x0);
        meta.value_04 = meta.magnitude_04 << ((8w0xa > meta.up_shift_04) ? (8w0xa - meta.up_shift_04) : 8w0x0);
        meta.value_05 = meta.magnitude_05 << ((8w0xa > meta.up_shift_05) ? (8w0xa - meta.up_shift_05) : 8w0x0);
        meta.value_06 = meta.magnitude_06 << ((8w0xa > meta.up_shift_06) ? (8w0xa - meta.up_shift_06) : 8w0x0);
        meta.value_07 = meta.magnitude_07 << ((8w0xa > meta.up_shift_07) ? (8w0xa - meta.up_shift_07) : 8w0x0);
        meta.value_08 = meta.magnitude_08 << ((8w0xa > meta.up_shift_08) ? (8w0xa - meta.up_shift_08) : 8w0x0);
        meta.value_09 = meta.magnitude_09 << ((8w0xa > meta.up_shift_09) ? (8w0xa - meta.up_shift_09) : 8w0x0);
        meta.value_10 = meta.magnitude_10 << ((8w0xa > meta.up_shift_10) ? (8w0xa - meta.up_shift_10) : 8w0x0);
        meta.value_11 = meta.magnitude_11 << ((8w0xa > meta.up_shift_11) ? (8w0xa - meta.up_shift_11) : 8w0x0);
        meta.value_12 = meta.magnitude_12 << ((8w0xa > meta.up_shift_12) ? (8w0xa - meta.up_shift_12) : 8w0x0);
        meta.value_13 = meta.magnitude_13 << ((8w0xa > meta.up_shift_13) ? (8w0xa - meta.up_shift_13) : 8w0x0);
        meta.value_14 = meta.magnitude_14 << ((8w0xa > meta.up_shift_14) ? (8w0xa - meta.up_shift_14) : 8w0x0);
        meta.value_15 = meta.magnitude_15 << ((8w0xa > meta.up_shift_15) ? (8w0xa - meta.up_shift_15) : 8w0x0);
    }

    @hidden
    action lanes_9() {
        meta.value_00 = (meta.down_shift_00 == 8w0x0) ? meta.value_00 : ((((meta.value_00 + ((32w0x1 << meta.down_shift_00) >> 8w0x1)) + ((meta.value_00 >> meta.down_shift_00) & 32w0x1)) - 32w0x1) >> meta.down_shift_00);
        meta.value_01 = (meta.down_shift_01 == 8w0x0) ? meta.value_01 : ((((meta.value_01 + ((32w0x1 << meta.down_shift_01) >> 8w0x1)) + ((meta.value_01 >> meta.down_shift_01) & 32w0x1)) - 32w0x1) >> meta.down_shift_01);
        meta.value_02 = (meta.down_shift_02 == 8w0x0) ? meta.value_02 : ((((meta.value_02 + ((32w0x1 << meta.down_shift_02) >> 8w0x1)) + ((meta.value_02 >> meta.down_shift_02) & 32w0x1)) - 32w0x1) >> meta.down_shift_02);
        meta.value_03 = (meta.down_shift_03 == 8w0x0) ? meta.value_03 : ((((meta.value_03 + ((32w0x1 << meta.down_shift_03) >> 8w0x1)) + ((meta.value_03 >> meta.down_shift_03) & 32w0x1)) - 32w0x1) >> meta.down_shift_03);
        meta.value_04 = (meta.down_shift_04 == 8w0x0) ? meta.value_04 : ((((meta.value_04 + ((32w0x1 << meta.down_shift_04) >> 8w0x1)) + ((meta.value_04 >> meta.down_shift_04) & 32w0x1)) - 32w0x1) >> meta.down_shift_04);
        meta.value_05 = (meta.down_shift_05 == 8w0x0) ? meta.value_05 : ((((meta.value_05 + ((32w0x1 << meta.down_shift_05) >> 8w0x1)) + ((meta.value_05 >> meta.down_shift_05) & 32w0x1)) - 32w0x1) >> meta.down_shift_05);
        meta.value_06 = (meta.down_shift_06 == 8w0x0) ? meta.value_06 : ((((meta.value_06 + ((32w0x1 << meta.down_shift_06) >> 8w0x1)) + ((meta.value_06 >> meta.down_shift_06) & 32w0x1)) - 32w0x1) >> meta.down_shift_06);
        meta.value_07 = (meta.down_shift_07 == 8w0x0) ? meta.value_07 : ((((meta.value_07 + ((32w0x1 << meta.down_shift_07) >> 8w0x1)) + ((meta.value_07 >> meta.down_shift_07) & 32w0x1)) - 32w0x1) >> meta.down_shift_07);
        meta.value_08 = (meta.down_shift_08 == 8w0x0) ? meta.value_08 : ((((meta.value_08 + ((32w0x1 << meta.down_shift_08) >> 8w0x1)) + ((meta.value_08 >> meta.down_shift_08) & 32w0x1)) - 32w0x1) >> meta.down_shift_08);
        meta.value_09 = (meta.down_shift_09 == 8w0x0) ? meta.value_09 : ((((meta.value_09 + ((32w0x1 << meta.down_shift_09) >> 8w0x1)) + ((meta.value_09 >> meta.down_shift_09) & 32w0x1)) - 32w0x1) >> meta.down_shift_09);
        meta.value_10 = (meta.down_shift_10 == 8w0x0) ? meta.value_10 : ((((meta.value_10 + ((32w0x1 << meta.down_shift_10) >> 8w0x1)) + ((meta.value_10 >> meta.down_shift_10) & 32w0x1)) - 32w0x1) >> meta.down_shift_10);
        meta.value_11 = (meta.down_shift_11 == 8w0x0) ? meta.value_11 : ((((meta.value_11 + ((32w0x1 << meta.down_shift_11) >> 8w0x1)) + ((meta.value_11 >> meta.down_shift_11) & 32w0x1)) - 32w0x1) >> meta.down_shift_11);
        meta.value_12 = (meta.down_shift_12 == 8w0x0) ? meta.value_12 : ((((meta.value_12 + ((32w0x1 << meta.down_shift_12) >> 8w0x1)) + ((meta.value_12 >> meta.down_shift_12) & 32w0x1)) - 32w0x1) >> meta.down_shift_12);
        meta.value_13 = (meta.down_shift_13 == 8w0x0) ? meta.value_13 : ((((meta.value_13 + ((32w0x1 << meta.down_shift_13) >> 8w0x1)) + ((meta.value_13 >> meta.down_shift_13) & 32w0x1)) - 32w0x1) >> meta.down_shift_13);
        meta.value_14 = (meta.down_shift_14 == 8w0x0) ? meta.value_14 : ((((meta.value_14 + ((32w0x1 << meta.down_shift_14) >> 8w0x1)) + ((meta.value_14 >> meta.down_shift_14) & 32w0x1)) - 32w0x1) >> meta.down_shift_14);
        meta.value_15 = (meta.down_shift_15 == 8w0x0) ? meta.value_15 : ((((meta.value_15 + ((32w0x1 << meta.down_shift_15) >> 8w0x1)) + ((meta.value_15 >> meta.down_shift_15) & 32w0x1)) - 32w0x1) >> meta.down_shift_15);
    }

    @hidden
    action lanes_10() {
        meta.value_00 = ((meta.magnitude_00 == 32w0x0) ? 32w0x0 : ((meta.magnitude_00 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_00) << 8w0xa) + meta.value_00) - 32w0x400))) | ((((meta.acc_00 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_01 = ((meta.magnitude_01 == 32w0x0) ? 32w0x0 : ((meta.magnitude_01 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_01) << 8w0xa) + meta.value_01) - 32w0x400))) | ((((meta.acc_01 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_02 = ((meta.magnitude_02 == 32w0x0) ? 32w0x0 : ((meta.magnitude_02 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_02) << 8w0xa) + meta.value_02) - 32w0x400))) | ((((meta.acc_02 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_03 = ((meta.magnitude_03 == 32w0x0) ? 32w0x0 : ((meta.magnitude_03 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_03) << 8w0xa) + meta.value_03) - 32w0x400))) | ((((meta.acc_03 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_04 = ((meta.magnitude_04 == 32w0x0) ? 32w0x0 : ((meta.magnitude_04 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_04) << 8w0xa) + meta.value_04) - 32w0x400))) | ((((meta.acc_04 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_05 = ((meta.magnitude_05 == 32w0x0) ? 32w0x0 : ((meta.magnitude_05 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_05) << 8w0xa) + meta.value_05) - 32w0x400))) | ((((meta.acc_05 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_06 = ((meta.magnitude_06 == 32w0x0) ? 32w0x0 : ((meta.magnitude_06 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_06) << 8w0xa) + meta.value_06) - 32w0x400))) | ((((meta.acc_06 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_07 = ((meta.magnitude_07 == 32w0x0) ? 32w0x0 : ((meta.magnitude_07 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_07) << 8w0xa) + meta.value_07) - 32w0x400))) | ((((meta.acc_07 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_08 = ((meta.magnitude_08 == 32w0x0) ? 32w0x0 : ((meta.magnitude_08 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_08) << 8w0xa) + meta.value_08) - 32w0x400))) | ((((meta.acc_08 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_09 = ((meta.magnitude_09 == 32w0x0) ? 32w0x0 : ((meta.magnitude_09 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_09) << 8w0xa) + meta.value_09) - 32w0x400))) | ((((meta.acc_09 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_10 = ((meta.magnitude_10 == 32w0x0) ? 32w0x0 : ((meta.magnitude_10 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_10) << 8w0xa) + meta.value_10) - 32w0x400))) | ((((meta.acc_10 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_11 = ((meta.magnitude_11 == 32w0x0) ? 32w0x0 : ((meta.magnitude_11 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_11) << 8w0xa) + meta.value_11) - 32w0x400))) | ((((meta.acc_11 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_12 = ((meta.magnitude_12 == 32w0x0) ? 32w0x0 : ((meta.magnitude_12 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_12) << 8w0xa) + meta.value_12) - 32w0x400))) | ((((meta.acc_12 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_13 = ((meta.magnitude_13 == 32w0x0) ? 32w0x0 : ((meta.magnitude_13 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_13) << 8w0xa) + meta.value_13) - 32w0x400))) | ((((meta.acc_13 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_14 = ((meta.magnitude_14 == 32w0x0) ? 32w0x0 : ((meta.magnitude_14 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_14) << 8w0xa) + meta.value_14) - 32w0x400))) | ((((meta.acc_14 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
        meta.value_15 = ((meta.magnitude_15 == 32w0x0) ? 32w0x0 : ((meta.magnitude_15 == 32w0x1) ? 32w0x200 : ((((bit<32>)(meta.up_shift_15) << 8w0xa) + meta.value_15) - 32w0x400))) | ((((meta.acc_15 >> 8w0x1f) & 32w0x1) == 32w0x1) ? 32w0x8000 : 32w0x0);
    }

    @hidden
    action lanes_11() {
        hdr.lanes.d00 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_00 : meta.acc_00));
        hdr.lanes.d01 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_01 : meta.acc_01));
        hdr.lanes.d02 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_02 : meta.acc_02));
        hdr.lanes.d03 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_03 : meta.acc_03));
        hdr.lanes.d04 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_04 : meta.acc_04));
        hdr.lanes.d05 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_05 : meta.acc_05));
        hdr.lanes.d06 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_06 : meta.acc_06));
        hdr.lanes.d07 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_07 : meta.acc_07));
        hdr.lanes.d08 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_08 : meta.acc_08));
        hdr.lanes.d09 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_09 : meta.acc_09));
        hdr.lanes.d10 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_10 : meta.acc_10));
        hdr.lanes.d11 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_11 : meta.acc_11));
        hdr.lanes.d12 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_12 : meta.acc_12));
        hdr.lanes.d13 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_13 : meta.acc_13));
        hdr.lanes.d14 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_14 : meta.acc_14));
        hdr.lanes.d15 = (bit<16>)(((hdr.netfold.op == 4w0x0) ? meta.value_15 : meta.acc_15));
    }

    @id(0x01000001)
    action admit(@id(1) bit<32> base, @id(2) bit<32> bit_mask, @id(3) bit<32> others, @id(4) bit<16> world, @id(5) bit<16> group) {
        meta.index = base;
        meta.bit_mask = bit_mask;
        meta.others = others;
        meta.world = world;
        meta.group = group;
    }

    @id(0x01000002)
    action admit_controller(@id(1) bit<32> base) {
        meta.index = base;
        meta.controller = 8w0x1;
    }

    @id(0x01000003)
    action deny(@id(1) bit<8> reason) {
        meta.reason = reason;
    }

    @id(0x01000004)
    action refuse(@id(1) bit<8> reason) {
        meta.reason = reason;
        meta.answer = 8w0x1;
    }

    @id(0x01000007)
    action admit_below(@id(1) bit<32> base, @id(2) bit<32> bit_mask, @id(3) bit<32> others, @id(4) bit<16> world, @id(5) bit<16> group, @id(6) bit<16> up, @id(7) bit<16> workers) {
        meta.index = base;
        meta.bit_mask = bit_mask;
        meta.others = others;
        meta.world = world;
        meta.group = group;
        meta.up = up;
        meta.workers = workers;
        meta.role = 8w0x1;
    }

    @id(0x01000008)
    action admit_result(@id(1) bit<32> base, @id(2) bit<32> others, @id(3) bit<16> world, @id(4) bit<16> group, @id(5) bit<32> bit_mask) {
        meta.index = base;
        meta.others = others;
        meta.world = world;
        meta.group = group;
        meta.bit_mask = bit_mask;
        meta.role = 8w0x2;
    }

    @id(0x02000001)
    table job {
        key = {
            meta.port: ternary @id(1) @name("port");
            hdr.netfold.kind: ternary @id(2) @name("kind");
            hdr.netfold.job: ternary @id(3) @name("job");
            hdr.netfold.key: ternary @id(4) @name("key");
            hdr.netfold.epoch: ternary @id(5) @name("epoch");
            hdr.netfold.slot: ternary @id(6) @name("slot");
            hdr.ipv4.src: ternary @id(7) @name("source");
        }
        actions = {
            admit;
            admit_controller;
            deny;
            refuse;
            admit_below;
            admit_result;
        }
        const default_action = deny(0x5);
        size = 794;
    }

    apply {
        mark_to_drop(standard_metadata);
        meta.port = (bit<16>)standard_metadata.ingress_port;
        if (hdr.netfold.isValid()) {
            if (standard_metadata.checksum_error == 1w1) {
                meta.reason = 8w0x1;
            } else if (hdr.netfold.version == 4w0x1) {
                if ((hdr.lanes.isValid() && (((standard_metadata.packet_length == 32w0x66) && (hdr.ipv4.total_len == 16w0x58)) && (hdr.udp.length == 16w0x44))) || ((!(hdr.lanes.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && (((standard_metadata.packet_length == 32w0x46) && (hdr.ipv4.total_len == 16w0x38)) && (hdr.udp.length == 16w0x24)))) {
                    if (!(((hdr.netfold.op == 4w0x0) || (hdr.netfold.op == 4w0x2)))) {
                        meta.reason = 8w0x4;
                    }
                } else {
                    meta.reason = 8w0x2;
                }
            } else {
                meta.reason = 8w0x3;
            }
        } else {
            meta.reason = 8w0x1;
        }
        if (meta.reason == 8w0x0) {
            job.apply();
            if (meta.reason == 8w0x0) {
                meta.index = meta.index + (bit<32>)((hdr.netfold.slot ++ hdr.netfold.set));
                if (hdr.netfold.count != 16w0x0) {
                    meta.share = meta.bit_mask;
                }
                meta.tally = (bit<32>)(hdr.netfold.count);
                if ((hdr.netfold.flags & 8w0x10) == 8w0x10) {
                    meta.tally = meta.tally + 32w0x10000;
                }
                if ((hdr.netfold.flags & 8w0x2) == 8w0x2) {
                    meta.tally = meta.tally + 32w0x1000000;
                }
                if ((hdr.netfold.flags & 8w0x88) == 8w0x88) {
                    hdr.lanes.setValid();
                    hdr.lanes.d00 = 0;
                    hdr.lanes.d01 = 0;
                    hdr.lanes.d02 = 0;
                    hdr.lanes.d03 = 0;
                    hdr.lanes.d04 = 0;
                    hdr.lanes.d05 = 0;
                    hdr.lanes.d06 = 0;
                    hdr.lanes.d07 = 0;
                    hdr.lanes.d08 = 0;
                    hdr.lanes.d09 = 0;
                    hdr.lanes.d10 = 0;
                    hdr.lanes.d11 = 0;
                    hdr.lanes.d12 = 0;
                    hdr.lanes.d13 = 0;
                    hdr.lanes.d14 = 0;
                    hdr.lanes.d15 = 0;
                    hdr.netfold.flags = hdr.netfold.flags & 8w0x7f;
                    hdr.udp.length = 16w0x44;
                    hdr.ipv4.total_len = 16w0x58;
                }
                if ((hdr.netfold.kind == 4w0x6) || (meta.role == 8w0x2)) {
                    claim_peek_out();
                    version_peek_out();
                } else if (hdr.netfold.kind == 4w0x3) {
                    claim_shut_out();
                    version_peek_out();
                } else {
                    claim_touch_out();
                    version_touch_out();
                }
                meta.diff = hdr.netfold.chunk - meta.stored;
                meta.duplicate = meta.seen & meta.bit_mask;
                meta.missing = meta.others & ~(meta.seen);
                if (hdr.lanes.isValid()) {
                    lanes_0_00.apply();
                    lanes_0_01.apply();
                    lanes_0_02.apply();
                    lanes_0_03.apply();
                    lanes_0_04.apply();
                    lanes_0_05.apply();
                    lanes_0_06.apply();
                    lanes_0_07.apply();
                    lanes_0_08.apply();
                    lanes_0_09.apply();
                    lanes_0_10.apply();
                    lanes_0_11.apply();
                    lanes_0_12.apply();
                    lanes_0_13.apply();
                    lanes_0_14.apply();
                    lanes_0_15.apply();
                    lanes_1();
                    lanes_2();
                    lanes_3();
                    lanes_4();
                }
                if (meta.controller == 8w0x1) {
                    if ((hdr.netfold.kind == 4w0x7) && ((int<32>)(meta.diff) > (int<32>)(32w0x0))) {
                        settled_mark();
                        exponent_clear();
                        sum_clear();
                        shares_store();
                        tally_store();
                    } else {
                        hdr.netfold.chunk = meta.stored;
                        hdr.netfold.bitmap = meta.seen;
                    }
                    meta.answer = 8w0x2;
                    standard_metadata.egress_spec = (bit<9>)(meta.port);
                    meta.swap = hdr.ethernet.dst;
                    hdr.ethernet.dst = hdr.ethernet.src;
                    hdr.ethernet.src = meta.swap;
                    meta.swap = (bit<48>)(hdr.ipv4.dst);
                    hdr.ipv4.dst = hdr.ipv4.src;
                    hdr.ipv4.src = (bit<32>)(meta.swap);
                    meta.swap = (bit<48>)(hdr.udp.dst_port);
                    hdr.udp.dst_port = hdr.udp.src_port;
                    hdr.udp.src_port = (bit<16>)(meta.swap);
                    hdr.ipv4.ttl = 8w0x40;
                    hdr.udp.checksum = 16w0x0;
                } else if (meta.role == 8w0x2) {
                    if ((meta.diff == 32w0x0) && (meta.missing == 32w0x0)) {
                        settled_mark_out();
                        if (meta.settled != hdr.netfold.chunk) {
                            exponent_store();
                            if (hdr.lanes.isValid()) {
                                sum_store();
                            }
                            meta.share = 32w0x0;
                            if ((hdr.netfold.bitmap & meta.bit_mask) != 32w0x0) {
                                shares_read_out();
                            } else {
                                shares_store_out();
                            }
                            tally_store();
                            hdr.netfold.kind = 4w0x2;
                            hdr.ipv4.ttl = 8w0x40;
                            hdr.udp.checksum = 16w0x0;
                            meta.answer = 8w0x2;
                            standard_metadata.mcast_grp = meta.group;
                            answers.count(32w0x0);
                        } else {
                            meta.reason = 8w0xb;
                        }
                    } else if ((int<32>)(32w0x0) > (int<32>)(meta.diff)) {
                        meta.reason = 8w0xa;
                    } else {
                        meta.reason = 8w0xd;
                    }
                } else if (hdr.netfold.kind == 4w0x3) {
                    if ((int<32>)(32w0x0) > (int<32>)(meta.diff)) {
                        hdr.netfold.kind = 4w0x4;
                        hdr.lanes.setInvalid();
                        hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                        hdr.udp.length = 16w0x24;
                        hdr.ipv4.total_len = 16w0x38;
                        meta.reason = 8w0xa;
                        meta.answer = 8w0x2;
                        standard_metadata.egress_spec = (bit<9>)(meta.port);
                        meta.swap = hdr.ethernet.dst;
                        hdr.ethernet.dst = hdr.ethernet.src;
                        hdr.ethernet.src = meta.swap;
                        meta.swap = (bit<48>)(hdr.ipv4.dst);
                        hdr.ipv4.dst = hdr.ipv4.src;
                        hdr.ipv4.src = (bit<32>)(meta.swap);
                        meta.swap = (bit<48>)(hdr.udp.dst_port);
                        hdr.udp.dst_port = hdr.udp.src_port;
                        hdr.udp.src_port = (bit<16>)(meta.swap);
                        hdr.ipv4.ttl = 8w0x40;
                        hdr.udp.checksum = 16w0x0;
                    } else if (meta.diff == 32w0x0) {
                        if (meta.missing == 32w0x0) {
                            settled_read_out();
                            exponent_read_out();
                            shares_read_out();
                            tally_read_out();
                            hdr.netfold.count = (bit<16>)(meta.tally);
                            if (hdr.lanes.isValid()) {
                                sum_read_to_acc();
                            }
                            meta.emit = 8w0x1;
                            hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                            if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                            }
                            if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                            }
                            if ((meta.role == 8w0x1) && (meta.settled != hdr.netfold.chunk)) {
                                meta.emit = 8w0x1;
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                }
                                if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                }
                                hdr.netfold.kind = 4w0x1;
                                hdr.ipv4.ttl = 8w0x40;
                                hdr.udp.checksum = 16w0x0;
                                meta.answer = 8w0x2;
                                standard_metadata.mcast_grp = meta.up;
                                answers.count(32w0x3);
                            } else {
                                hdr.netfold.kind = 4w0x2;
                                meta.answer = 8w0x2;
                                standard_metadata.egress_spec = (bit<9>)(meta.port);
                                meta.swap = hdr.ethernet.dst;
                                hdr.ethernet.dst = hdr.ethernet.src;
                                hdr.ethernet.src = meta.swap;
                                meta.swap = (bit<48>)(hdr.ipv4.dst);
                                hdr.ipv4.dst = hdr.ipv4.src;
                                hdr.ipv4.src = (bit<32>)(meta.swap);
                                meta.swap = (bit<48>)(hdr.udp.dst_port);
                                hdr.udp.dst_port = hdr.udp.src_port;
                                hdr.udp.src_port = (bit<16>)(meta.swap);
                                hdr.ipv4.ttl = 8w0x40;
                                hdr.udp.checksum = 16w0x0;
                                answers.count(32w0x1);
                            }
                        } else if ((meta.seen & hdr.netfold.bitmap) == hdr.netfold.bitmap) {
                            exponent_read_out();
                            meta.share = 32w0x0;
                            meta.tally = 32w0x10000;
                            shares_add_out();
                            tally_add_out();
                            hdr.netfold.count = (bit<16>)(meta.tally);
                            if (hdr.lanes.isValid()) {
                                sum_read_to_acc();
                            }
                            if (meta.role == 8w0x1) {
                                meta.emit = 8w0x1;
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                }
                                if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                }
                                hdr.netfold.kind = 4w0x1;
                                hdr.ipv4.ttl = 8w0x40;
                                hdr.udp.checksum = 16w0x0;
                                meta.answer = 8w0x2;
                                standard_metadata.mcast_grp = meta.up;
                                answers.count(32w0x2);
                            } else {
                                meta.emit = 8w0x1;
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                }
                                if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                }
                                hdr.netfold.kind = 4w0x2;
                                hdr.ipv4.ttl = 8w0x40;
                                hdr.udp.checksum = 16w0x0;
                                meta.answer = 8w0x2;
                                standard_metadata.mcast_grp = meta.group;
                                answers.count(32w0x0);
                            }
                        } else {
                            hdr.netfold.kind = 4w0x8;
                            hdr.netfold.bitmap = meta.seen;
                            hdr.lanes.setInvalid();
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                            hdr.udp.length = 16w0x24;
                            hdr.ipv4.total_len = 16w0x38;
                            meta.answer = 8w0x2;
                            standard_metadata.egress_spec = (bit<9>)(meta.port);
                            meta.swap = hdr.ethernet.dst;
                            hdr.ethernet.dst = hdr.ethernet.src;
                            hdr.ethernet.src = meta.swap;
                            meta.swap = (bit<48>)(hdr.ipv4.dst);
                            hdr.ipv4.dst = hdr.ipv4.src;
                            hdr.ipv4.src = (bit<32>)(meta.swap);
                            meta.swap = (bit<48>)(hdr.udp.dst_port);
                            hdr.udp.dst_port = hdr.udp.src_port;
                            hdr.udp.src_port = (bit<16>)(meta.swap);
                            hdr.ipv4.ttl = 8w0x40;
                            hdr.udp.checksum = 16w0x0;
                        }
                    } else {
                        meta.reason = 8w0xd;
                    }
                } else if ((int<32>)(32w0x0) > (int<32>)(meta.diff)) {
                    hdr.netfold.kind = 4w0x4;
                    hdr.lanes.setInvalid();
                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                    hdr.udp.length = 16w0x24;
                    hdr.ipv4.total_len = 16w0x38;
                    meta.reason = 8w0xa;
                    meta.answer = 8w0x2;
                    standard_metadata.egress_spec = (bit<9>)(meta.port);
                    meta.swap = hdr.ethernet.dst;
                    hdr.ethernet.dst = hdr.ethernet.src;
                    hdr.ethernet.src = meta.swap;
                    meta.swap = (bit<48>)(hdr.ipv4.dst);
                    hdr.ipv4.dst = hdr.ipv4.src;
                    hdr.ipv4.src = (bit<32>)(meta.swap);
                    meta.swap = (bit<48>)(hdr.udp.dst_port);
                    hdr.udp.dst_port = hdr.udp.src_port;
                    hdr.udp.src_port = (bit<16>)(meta.swap);
                    hdr.ipv4.ttl = 8w0x40;
                    hdr.udp.checksum = 16w0x0;
                } else if (meta.duplicate != 32w0x0) {
                    if (meta.missing == 32w0x0) {
                        settled_read_out();
                        exponent_read_out();
                        shares_read_out();
                        tally_read_out();
                        hdr.netfold.count = (bit<16>)(meta.tally);
                        if (hdr.lanes.isValid()) {
                            sum_read_to_acc();
                        }
                        meta.emit = 8w0x1;
                        hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                        if ((meta.tally & 32w0xff0000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                        }
                        if ((meta.tally & 32w0xff000000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                        }
                        if ((meta.role == 8w0x1) && (meta.settled != hdr.netfold.chunk)) {
                            meta.emit = 8w0x1;
                            hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                            if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                            }
                            if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                            }
                            hdr.netfold.kind = 4w0x1;
                            hdr.ipv4.ttl = 8w0x40;
                            hdr.udp.checksum = 16w0x0;
                            meta.answer = 8w0x2;
                            standard_metadata.mcast_grp = meta.up;
                            answers.count(32w0x3);
                        } else {
                            hdr.netfold.kind = 4w0x2;
                            meta.answer = 8w0x2;
                            standard_metadata.egress_spec = (bit<9>)(meta.port);
                            meta.swap = hdr.ethernet.dst;
                            hdr.ethernet.dst = hdr.ethernet.src;
                            hdr.ethernet.src = meta.swap;
                            meta.swap = (bit<48>)(hdr.ipv4.dst);
                            hdr.ipv4.dst = hdr.ipv4.src;
                            hdr.ipv4.src = (bit<32>)(meta.swap);
                            meta.swap = (bit<48>)(hdr.udp.dst_port);
                            hdr.udp.dst_port = hdr.udp.src_port;
                            hdr.udp.src_port = (bit<16>)(meta.swap);
                            hdr.ipv4.ttl = 8w0x40;
                            hdr.udp.checksum = 16w0x0;
                            answers.count(32w0x1);
                        }
                    } else {
                        meta.reason = 8w0xb;
                        if ((hdr.netfold.flags & 8w0x4) == 8w0x4) {
                            hdr.netfold.kind = 4w0x8;
                            hdr.netfold.bitmap = meta.seen;
                            hdr.lanes.setInvalid();
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                            hdr.udp.length = 16w0x24;
                            hdr.ipv4.total_len = 16w0x38;
                            meta.answer = 8w0x2;
                            standard_metadata.egress_spec = (bit<9>)(meta.port);
                            meta.swap = hdr.ethernet.dst;
                            hdr.ethernet.dst = hdr.ethernet.src;
                            hdr.ethernet.src = meta.swap;
                            meta.swap = (bit<48>)(hdr.ipv4.dst);
                            hdr.ipv4.dst = hdr.ipv4.src;
                            hdr.ipv4.src = (bit<32>)(meta.swap);
                            meta.swap = (bit<48>)(hdr.udp.dst_port);
                            hdr.udp.dst_port = hdr.udp.src_port;
                            hdr.udp.src_port = (bit<16>)(meta.swap);
                            hdr.ipv4.ttl = 8w0x40;
                            hdr.udp.checksum = 16w0x0;
                        }
                    }
                } else if (meta.missing == 32w0x0) {
                    if (meta.diff != 32w0x0) {
                        exponent_store_out();
                        shares_store_out();
                        tally_store_out();
                        hdr.netfold.count = (bit<16>)(meta.tally);
                        if (hdr.lanes.isValid() && (meta.share != 32w0x0)) {
                            sum_store_to_acc();
                        } else {
                            sum_clear();
                        }
                    } else {
                        exponent_raise_out();
                        shares_add_out();
                        tally_add_out();
                        hdr.netfold.count = (bit<16>)(meta.tally);
                        if (hdr.lanes.isValid()) {
                            if (meta.share != 32w0x0) {
                                if (hdr.netfold.op == 4w0x0) {
                                    sum_sum_to_acc();
                                } else {
                                    sum_max_to_acc();
                                }
                            } else {
                                sum_read_to_acc();
                            }
                        }
                    }
                    if (meta.role == 8w0x1) {
                        meta.emit = 8w0x1;
                        hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                        if ((meta.tally & 32w0xff0000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                        }
                        if ((meta.tally & 32w0xff000000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                        }
                        hdr.netfold.kind = 4w0x1;
                        hdr.ipv4.ttl = 8w0x40;
                        hdr.udp.checksum = 16w0x0;
                        meta.answer = 8w0x2;
                        standard_metadata.mcast_grp = meta.up;
                        answers.count(32w0x2);
                    } else {
                        meta.emit = 8w0x1;
                        hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                        if ((meta.tally & 32w0xff0000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                        }
                        if ((meta.tally & 32w0xff000000) != 32w0x0) {
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                        }
                        hdr.netfold.kind = 4w0x2;
                        hdr.ipv4.ttl = 8w0x40;
                        hdr.udp.checksum = 16w0x0;
                        meta.answer = 8w0x2;
                        standard_metadata.mcast_grp = meta.group;
                        answers.count(32w0x0);
                    }
                } else if (meta.diff != 32w0x0) {
                    exponent_store();
                    shares_store();
                    tally_store();
                    if (hdr.lanes.isValid() && (meta.share != 32w0x0)) {
                        sum_store();
                    } else {
                        sum_clear();
                    }
                } else {
                    exponent_raise();
                    shares_add();
                    tally_add();
                    if (hdr.lanes.isValid()) {
                        if (meta.share != 32w0x0) {
                            if (hdr.netfold.op == 4w0x0) {
                                sum_sum();
                            } else {
                                sum_max();
                            }
                        }
                    }
                }
                if ((meta.emit == 8w0x1) && hdr.lanes.isValid()) {
                    lanes_5();
                    lanes_6_00.apply();
                    lanes_6_01.apply();
                    lanes_6_02.apply();
                    lanes_6_03.apply();
                    lanes_6_04.apply();
                    lanes_6_05.apply();
                    lanes_6_06.apply();
                    lanes_6_07.apply();
                    lanes_6_08.apply();
                    lanes_6_09.apply();
                    lanes_6_10.apply();
                    lanes_6_11.apply();
                    lanes_6_12.apply();
                    lanes_6_13.apply();
                    lanes_6_14.apply();
                    lanes_6_15.apply();
                    lanes_7();
                    lanes_8();
                    lanes_9();
                    lanes_10();
                    lanes_11();
                }
            }
        }
        if (meta.answer == 8w0x1) {
            hdr.netfold.kind = 4w0x5;
            hdr.netfold.reason = meta.reason;
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            hdr.udp.length = 16w0x24;
            hdr.ipv4.total_len = 16w0x38;
            meta.answer = 8w0x2;
            standard_metadata.egress_spec = (bit<9>)(meta.port);
            meta.swap = hdr.ethernet.dst;
            hdr.ethernet.dst = hdr.ethernet.src;
            hdr.ethernet.src = meta.swap;
            meta.swap = (bit<48>)(hdr.ipv4.dst);
            hdr.ipv4.dst = hdr.ipv4.src;
            hdr.ipv4.src = (bit<32>)(meta.swap);
            meta.swap = (bit<48>)(hdr.udp.dst_port);
            hdr.udp.dst_port = hdr.udp.src_port;
            hdr.udp.src_port = (bit<16>)(meta.swap);
            hdr.ipv4.ttl = 8w0x40;
            hdr.udp.checksum = 16w0x0;
        } else if (meta.answer == 8w0x0) {
            mark_to_drop(standard_metadata);
        }
        packets.count((bit<32>)(meta.reason));
    }
}

control EgressImpl(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata
) {
    @id(0x01000005)
    action rewrite(@id(1) bit<48> dst_mac, @id(2) bit<32> dst_ip, @id(3) bit<16> dst_port, @id(4) bit<48> src_mac, @id(5) bit<32> src_ip, @id(6) bit<16> src_port) {
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.dst = dst_ip;
        hdr.udp.dst_port = dst_port;
        hdr.ethernet.src = src_mac;
        hdr.ipv4.src = src_ip;
        hdr.udp.src_port = src_port;
    }

    @id(0x01000006)
    action keep() {
    }

    @id(0x02000002)
    table child {
        key = {
            meta.port: exact @id(1) @name("instance");
        }
        actions = {
            rewrite;
            keep;
        }
        const default_action = keep();
        size = 132;
    }

    apply {
        meta.port = standard_metadata.egress_rid;
        if (meta.port != 16w0x0) {
            child.apply();
        }
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.netfold);
        pkt.emit(hdr.lanes);
    }
}

V1Switch(
    ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()
) main;
