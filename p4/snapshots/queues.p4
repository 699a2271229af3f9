// netfold_all_reduce: in-network all-reduce: 8 word lanes of 32 bits, 64 slots x 2 sets, up to 32 children.
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
    bit<32> d00;
    bit<32> d01;
    bit<32> d02;
    bit<32> d03;
    bit<32> d04;
    bit<32> d05;
    bit<32> d06;
    bit<32> d07;
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
    bit<16> way;
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
    @id(0x16000005) register<bit<32>, bit<32>>(128) settled_chunk;
    @id(0x16000006) register<bit<32>, bit<32>>(128) shares_children;
    @id(0x16000007) register<bit<32>, bit<32>>(128) tally_tally;
    @id(0x12000001) counter<bit<32>>(14, CounterType.packets) packets;
    @id(0x12000002) counter<bit<32>>(4, CounterType.packets) answers;
    @id(0x12000003) counter<bit<32>>(1, CounterType.packets) forwarded;

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
        sum_00.write(meta.index, hdr.lanes.d00);
        sum_01.write(meta.index, hdr.lanes.d01);
        sum_02.write(meta.index, hdr.lanes.d02);
        sum_03.write(meta.index, hdr.lanes.d03);
        sum_04.write(meta.index, hdr.lanes.d04);
        sum_05.write(meta.index, hdr.lanes.d05);
        sum_06.write(meta.index, hdr.lanes.d06);
        sum_07.write(meta.index, hdr.lanes.d07);
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
    action sum_read_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        hdr.lanes.d00 = old0;
        sum_01.read(old0, meta.index);
        hdr.lanes.d01 = old0;
        sum_02.read(old0, meta.index);
        hdr.lanes.d02 = old0;
        sum_03.read(old0, meta.index);
        hdr.lanes.d03 = old0;
        sum_04.read(old0, meta.index);
        hdr.lanes.d04 = old0;
        sum_05.read(old0, meta.index);
        hdr.lanes.d05 = old0;
        sum_06.read(old0, meta.index);
        hdr.lanes.d06 = old0;
        sum_07.read(old0, meta.index);
        hdr.lanes.d07 = old0;
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
    action sum_store_out() {
        sum_00.write(meta.index, hdr.lanes.d00);
        sum_01.write(meta.index, hdr.lanes.d01);
        sum_02.write(meta.index, hdr.lanes.d02);
        sum_03.write(meta.index, hdr.lanes.d03);
        sum_04.write(meta.index, hdr.lanes.d04);
        sum_05.write(meta.index, hdr.lanes.d05);
        sum_06.write(meta.index, hdr.lanes.d06);
        sum_07.write(meta.index, hdr.lanes.d07);
    }

    @hidden
    action exponent_raise_out() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        exponent_exponent.write(meta.index, old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next);
        hdr.netfold.exp_next = old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next;
    }

    @hidden
    action sum_sum_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 + hdr.lanes.d00);
        hdr.lanes.d00 = old0 + hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 + hdr.lanes.d01);
        hdr.lanes.d01 = old0 + hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 + hdr.lanes.d02);
        hdr.lanes.d02 = old0 + hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 + hdr.lanes.d03);
        hdr.lanes.d03 = old0 + hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 + hdr.lanes.d04);
        hdr.lanes.d04 = old0 + hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 + hdr.lanes.d05);
        hdr.lanes.d05 = old0 + hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 + hdr.lanes.d06);
        hdr.lanes.d06 = old0 + hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 + hdr.lanes.d07);
        hdr.lanes.d07 = old0 + hdr.lanes.d07;
    }

    @hidden
    action sum_min_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00);
        hdr.lanes.d00 = (int<32>)(old0) < (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01);
        hdr.lanes.d01 = (int<32>)(old0) < (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02);
        hdr.lanes.d02 = (int<32>)(old0) < (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03);
        hdr.lanes.d03 = (int<32>)(old0) < (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04);
        hdr.lanes.d04 = (int<32>)(old0) < (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05);
        hdr.lanes.d05 = (int<32>)(old0) < (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06);
        hdr.lanes.d06 = (int<32>)(old0) < (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07);
        hdr.lanes.d07 = (int<32>)(old0) < (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07;
    }

    @hidden
    action sum_max_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00);
        hdr.lanes.d00 = (int<32>)(old0) > (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01);
        hdr.lanes.d01 = (int<32>)(old0) > (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02);
        hdr.lanes.d02 = (int<32>)(old0) > (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03);
        hdr.lanes.d03 = (int<32>)(old0) > (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04);
        hdr.lanes.d04 = (int<32>)(old0) > (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05);
        hdr.lanes.d05 = (int<32>)(old0) > (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06);
        hdr.lanes.d06 = (int<32>)(old0) > (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07);
        hdr.lanes.d07 = (int<32>)(old0) > (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07;
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
        sum_00.write(meta.index, old0 + hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 + hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 + hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 + hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 + hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 + hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 + hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 + hdr.lanes.d07);
    }

    @hidden
    action sum_min() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07);
    }

    @hidden
    action sum_max() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d00) ? old0 : hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d01) ? old0 : hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d02) ? old0 : hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d03) ? old0 : hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d04) ? old0 : hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d05) ? old0 : hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d06) ? old0 : hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d07) ? old0 : hdr.lanes.d07);
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

    @id(0x01000009)
    action forward(@id(1) bit<16> port) {
        meta.way = port;
    }

    @id(0x0100000a)
    action here() {
    }

    @id(0x02000003)
    table transit {
        key = {
            hdr.ipv4.dst: exact @id(1) @name("destination");
        }
        actions = {
            forward;
            here;
        }
        const default_action = here();
        size = 64;
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
        if (hdr.ipv4.isValid() && !((standard_metadata.checksum_error == 1w1))) {
            transit.apply();
        }
        if (meta.way != 16w0x0) {
            standard_metadata.egress_spec = (bit<9>)(meta.way);
            forwarded.count(32w0x0);
        } else {
            meta.port = (bit<16>)standard_metadata.ingress_port;
            if (hdr.netfold.isValid()) {
                if (standard_metadata.checksum_error == 1w1) {
                    meta.reason = 8w0x1;
                } else if (hdr.netfold.version == 4w0x1) {
                    if ((hdr.lanes.isValid() && (((standard_metadata.packet_length == 32w0x66) && (hdr.ipv4.total_len == 16w0x58)) && (hdr.udp.length == 16w0x44))) || ((!(hdr.lanes.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && (((standard_metadata.packet_length == 32w0x46) && (hdr.ipv4.total_len == 16w0x38)) && (hdr.udp.length == 16w0x24)))) {
                        if (!((((hdr.netfold.op == 4w0x0) || (hdr.netfold.op == 4w0x1)) || (hdr.netfold.op == 4w0x2)))) {
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
                                    sum_read_out();
                                }
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                }
                                if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                }
                                if ((meta.role == 8w0x1) && (meta.settled != hdr.netfold.chunk)) {
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
                                    sum_read_out();
                                }
                                if (meta.role == 8w0x1) {
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
                                sum_read_out();
                            }
                            hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                            if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                            }
                            if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                            }
                            if ((meta.role == 8w0x1) && (meta.settled != hdr.netfold.chunk)) {
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
                                sum_store_out();
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
                                        sum_sum_out();
                                    } else if (hdr.netfold.op == 4w0x1) {
                                        sum_min_out();
                                    } else {
                                        sum_max_out();
                                    }
                                } else {
                                    sum_read_out();
                                }
                            }
                        }
                        if (meta.role == 8w0x1) {
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
                                } else if (hdr.netfold.op == 4w0x1) {
                                    sum_min();
                                } else {
                                    sum_max();
                                }
                            }
                        }
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
        if (hdr.netfold.isValid()) {
            if ((hdr.netfold.kind == 4w0x1) || (hdr.netfold.kind == 4w0x2)) {
                if (hdr.netfold.class > 4w0xb) {
                    standard_metadata.priority = 3w0x3;
                } else if (hdr.netfold.class > 4w0x7) {
                    standard_metadata.priority = 3w0x2;
                } else if (hdr.netfold.class > 4w0x3) {
                    standard_metadata.priority = 3w0x1;
                } else {
                    standard_metadata.priority = 3w0x0;
                }
            } else {
                standard_metadata.priority = 3w0x3;
            }
        }
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
        if ((((standard_metadata.enq_qdepth > 19w0x17) && (hdr.netfold.kind == 4w0x1)) && ((hdr.netfold.flags & 8w0x4) != 8w0x0)) && hdr.lanes.isValid()) {
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            hdr.udp.length = 16w0x24;
            hdr.ipv4.total_len = 16w0x38;
            hdr.netfold.flags = hdr.netfold.flags | 8w0x8;
            hdr.netfold.count = 16w0x0;
            hdr.udp.checksum = 16w0x0;
        }
        if ((standard_metadata.enq_qdepth > 19w0xf) && (hdr.ipv4.ecn != 2w0x0)) {
            hdr.ipv4.ecn = 2w0x3;
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
