// netfold_all_reduce: in-network all-reduce: 16 word lanes of 32 bits, 4 slots x 2 sets, up to 2 children.
// Generated; do not edit.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

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
    bit<16> owner;
    bit<16> reserved;
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
    bit<32> d08;
    bit<32> d09;
    bit<32> d10;
    bit<32> d11;
    bit<32> d12;
    bit<32> d13;
    bit<32> d14;
    bit<32> d15;
}

struct headers_t {
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
}

parser ParserImpl(
    packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata
) {
    state start {
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
    @id(0x16000001) register<bit<32>, bit<32>>(8) claim_seen;
    @id(0x16000002) register<bit<32>, bit<32>>(8) claim_chunk;
    @id(0x16000003) register<bit<32>, bit<32>>(8) version_chunk;
    @id(0x16000004) register<bit<8>, bit<32>>(8) exponent_exponent;
    @id(0x16001000) register<bit<32>, bit<32>>(8) sum_00;
    @id(0x16001001) register<bit<32>, bit<32>>(8) sum_01;
    @id(0x16001002) register<bit<32>, bit<32>>(8) sum_02;
    @id(0x16001003) register<bit<32>, bit<32>>(8) sum_03;
    @id(0x16001004) register<bit<32>, bit<32>>(8) sum_04;
    @id(0x16001005) register<bit<32>, bit<32>>(8) sum_05;
    @id(0x16001006) register<bit<32>, bit<32>>(8) sum_06;
    @id(0x16001007) register<bit<32>, bit<32>>(8) sum_07;
    @id(0x16001008) register<bit<32>, bit<32>>(8) sum_08;
    @id(0x16001009) register<bit<32>, bit<32>>(8) sum_09;
    @id(0x1600100a) register<bit<32>, bit<32>>(8) sum_10;
    @id(0x1600100b) register<bit<32>, bit<32>>(8) sum_11;
    @id(0x1600100c) register<bit<32>, bit<32>>(8) sum_12;
    @id(0x1600100d) register<bit<32>, bit<32>>(8) sum_13;
    @id(0x1600100e) register<bit<32>, bit<32>>(8) sum_14;
    @id(0x1600100f) register<bit<32>, bit<32>>(8) sum_15;
    @id(0x12000001) counter<bit<32>>(15, CounterType.packets) packets;
    @id(0x12000002) counter<bit<32>>(2, CounterType.packets) answers;

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
    action exponent_read_out() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        hdr.netfold.exp_next = old0;
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
        sum_08.read(old0, meta.index);
        hdr.lanes.d08 = old0;
        sum_09.read(old0, meta.index);
        hdr.lanes.d09 = old0;
        sum_10.read(old0, meta.index);
        hdr.lanes.d10 = old0;
        sum_11.read(old0, meta.index);
        hdr.lanes.d11 = old0;
        sum_12.read(old0, meta.index);
        hdr.lanes.d12 = old0;
        sum_13.read(old0, meta.index);
        hdr.lanes.d13 = old0;
        sum_14.read(old0, meta.index);
        hdr.lanes.d14 = old0;
        sum_15.read(old0, meta.index);
        hdr.lanes.d15 = old0;
    }

    @hidden
    action exponent_store_out() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
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
        sum_08.write(meta.index, hdr.lanes.d08);
        sum_09.write(meta.index, hdr.lanes.d09);
        sum_10.write(meta.index, hdr.lanes.d10);
        sum_11.write(meta.index, hdr.lanes.d11);
        sum_12.write(meta.index, hdr.lanes.d12);
        sum_13.write(meta.index, hdr.lanes.d13);
        sum_14.write(meta.index, hdr.lanes.d14);
        sum_15.write(meta.index, hdr.lanes.d15);
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 + hdr.lanes.d08);
        hdr.lanes.d08 = old0 + hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 + hdr.lanes.d09);
        hdr.lanes.d09 = old0 + hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 + hdr.lanes.d10);
        hdr.lanes.d10 = old0 + hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 + hdr.lanes.d11);
        hdr.lanes.d11 = old0 + hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 + hdr.lanes.d12);
        hdr.lanes.d12 = old0 + hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 + hdr.lanes.d13);
        hdr.lanes.d13 = old0 + hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 + hdr.lanes.d14);
        hdr.lanes.d14 = old0 + hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 + hdr.lanes.d15);
        hdr.lanes.d15 = old0 + hdr.lanes.d15;
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
        sum_08.write(meta.index, hdr.lanes.d08);
        sum_09.write(meta.index, hdr.lanes.d09);
        sum_10.write(meta.index, hdr.lanes.d10);
        sum_11.write(meta.index, hdr.lanes.d11);
        sum_12.write(meta.index, hdr.lanes.d12);
        sum_13.write(meta.index, hdr.lanes.d13);
        sum_14.write(meta.index, hdr.lanes.d14);
        sum_15.write(meta.index, hdr.lanes.d15);
    }

    @hidden
    action exponent_raise() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        exponent_exponent.write(meta.index, old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next);
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 + hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 + hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 + hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 + hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 + hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 + hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 + hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 + hdr.lanes.d15);
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

    @id(0x0100000b)
    action challenge(@id(1) bit<32> token_high, @id(2) bit<32> token_low) {
        meta.others = token_high;
        meta.bit_mask = token_low;
        meta.reason = 8w0xe;
        meta.answer = 8w0x3;
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
        }
        actions = {
            admit;
            admit_controller;
            deny;
            refuse;
            challenge;
        }
        const default_action = deny(0x5);
        size = 13;
    }

    apply {
        mark_to_drop(standard_metadata);
        meta.port = (bit<16>)standard_metadata.ingress_port;
        if (hdr.netfold.isValid()) {
            if (hdr.netfold.version == 4w0x2) {
                if ((hdr.lanes.isValid() && (standard_metadata.packet_length == 32w0x60)) || ((!(hdr.lanes.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && (standard_metadata.packet_length == 32w0x20))) {
                    if (!((hdr.netfold.op == 4w0x0))) {
                        meta.reason = 8w0x4;
                    }
                } else {
                    meta.reason = 8w0x2;
                }
            } else {
                meta.reason = 8w0x3;
            }
        } else {
            meta.reason = 8w0x2;
        }
        if (meta.reason == 8w0x0) {
            job.apply();
            if (meta.reason == 8w0x0) {
                meta.index = meta.index + (bit<32>)((hdr.netfold.slot ++ hdr.netfold.set));
                if (hdr.netfold.kind == 4w0x6) {
                    claim_peek_out();
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
                        exponent_clear();
                        sum_clear();
                    } else {
                        hdr.netfold.chunk = meta.stored;
                        hdr.netfold.bitmap = meta.seen;
                    }
                    meta.answer = 8w0x2;
                    standard_metadata.egress_spec = (bit<9>)(meta.port);
                } else if ((int<32>)(32w0x0) > (int<32>)(meta.diff)) {
                    hdr.netfold.kind = 4w0x4;
                    hdr.lanes.setInvalid();
                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                    meta.reason = 8w0xa;
                    meta.answer = 8w0x2;
                    standard_metadata.egress_spec = (bit<9>)(meta.port);
                } else if (meta.duplicate != 32w0x0) {
                    if (meta.missing == 32w0x0) {
                        exponent_read_out();
                        if (hdr.lanes.isValid()) {
                            sum_read_out();
                        }
                        hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
                        hdr.netfold.kind = 4w0x2;
                        hdr.netfold.bitmap = meta.others | meta.bit_mask;
                        hdr.netfold.count = meta.world;
                        meta.answer = 8w0x2;
                        standard_metadata.egress_spec = (bit<9>)(meta.port);
                        answers.count(32w0x1);
                    } else {
                        meta.reason = 8w0xb;
                    }
                } else if (meta.missing == 32w0x0) {
                    if (meta.diff != 32w0x0) {
                        exponent_store_out();
                        if (hdr.lanes.isValid()) {
                            sum_store_out();
                        } else {
                            sum_clear();
                        }
                    } else {
                        exponent_raise_out();
                        if (hdr.lanes.isValid()) {
                            sum_sum_out();
                        }
                    }
                    hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
                    hdr.netfold.kind = 4w0x2;
                    hdr.netfold.bitmap = meta.others | meta.bit_mask;
                    hdr.netfold.count = meta.world;
                    meta.answer = 8w0x2;
                    standard_metadata.mcast_grp = meta.group;
                    answers.count(32w0x0);
                } else if (meta.diff != 32w0x0) {
                    exponent_store();
                    if (hdr.lanes.isValid()) {
                        sum_store();
                    } else {
                        sum_clear();
                    }
                } else {
                    exponent_raise();
                    if (hdr.lanes.isValid()) {
                        sum_sum();
                    }
                }
            }
        }
        if (meta.answer == 8w0x1) {
            hdr.netfold.kind = 4w0x5;
            hdr.netfold.reason = meta.reason;
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            meta.answer = 8w0x2;
            standard_metadata.egress_spec = (bit<9>)(meta.port);
        } else if (meta.answer == 8w0x3) {
            hdr.netfold.chunk = meta.others;
            hdr.netfold.bitmap = meta.bit_mask;
            hdr.netfold.kind = 4w0x5;
            hdr.netfold.reason = meta.reason;
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            meta.answer = 8w0x2;
            standard_metadata.egress_spec = (bit<9>)(meta.port);
        } else if (meta.answer == 8w0x0) {
            mark_to_drop(standard_metadata);
        }
        packets.count((bit<32>)(meta.reason));
    }
}

control EgressImpl(
    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata
) {
    apply {
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
    }
}

control DeparserImpl(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.netfold);
        pkt.emit(hdr.lanes);
    }
}

V1Switch(
    ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()
) main;
