// netfold_all_reduce: in-network all-reduce: 64 word lanes of 32 bits, 4096 slots x 2 sets, up to 32 children.
// For tofino2. Generated; do not edit.
#include <core.p4>
#include <t2na.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<8> version_ihl;
    bit<8> dscp_ecn;
    bit<16> total_len;
    bit<16> identification;
    bit<16> reserved_to_fragment_offset;
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
    bit<8> version_kind;
    bit<8> flags;
    bit<8> op_class;
    bit<8> reason;
    bit<16> job;
    bit<16> slot_set;
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

header lanes_0_t {
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
    bit<32> d16;
    bit<32> d17;
    bit<32> d18;
    bit<32> d19;
    bit<32> d20;
    bit<32> d21;
    bit<32> d22;
    bit<32> d23;
    bit<32> d24;
    bit<32> d25;
    bit<32> d26;
    bit<32> d27;
    bit<32> d28;
    bit<32> d29;
    bit<32> d30;
    bit<32> d31;
}

header lanes_1_t {
    bit<32> d32;
    bit<32> d33;
    bit<32> d34;
    bit<32> d35;
    bit<32> d36;
    bit<32> d37;
    bit<32> d38;
    bit<32> d39;
    bit<32> d40;
    bit<32> d41;
    bit<32> d42;
    bit<32> d43;
    bit<32> d44;
    bit<32> d45;
    bit<32> d46;
    bit<32> d47;
    bit<32> d48;
    bit<32> d49;
    bit<32> d50;
    bit<32> d51;
    bit<32> d52;
    bit<32> d53;
    bit<32> d54;
    bit<32> d55;
    bit<32> d56;
    bit<32> d57;
    bit<32> d58;
    bit<32> d59;
    bit<32> d60;
    bit<32> d61;
    bit<32> d62;
    bit<32> d63;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    netfold_t netfold;
    lanes_0_t lanes_0;
    lanes_1_t lanes_1;
}

struct metadata_t {
    bit<16> port;
    bit<8> reason;
    bit<8> answer;
    bit<32> bit_mask;
    bit<32> others;
    bit<16> world;
    bit<16> group;
    bit<16> index;
    bit<32> seen;
    bit<32> stored;
    bit<32> diff;
    bit<32> duplicate;
    bit<32> missing;
    bit<8> controller;
    bit<48> swap;
    bit<1> x_bare;
    bit<8> x_check;
    bit<1> x_harvest;
    bit<8> x_version_kind;
    bit<1> x_bad_checksum;
    bit<1> x_counts_packets;
    bit<8> x_packets_index;
    bit<1> x_counts_answers;
    bit<8> x_answers_index;
}

parser IngressParserImpl(
    packet_in pkt, out headers_t hdr, out metadata_t meta,
    out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_sum;
    state start {
        pkt.extract(ig_intr_md);
        pkt.advance(PORT_METADATA_SIZE);
        meta.port = 0;
        meta.reason = 0;
        meta.answer = 0;
        meta.bit_mask = 0;
        meta.others = 0;
        meta.world = 0;
        meta.group = 0;
        meta.index = 0;
        meta.seen = 0;
        meta.stored = 0;
        meta.diff = 0;
        meta.duplicate = 0;
        meta.missing = 0;
        meta.controller = 0;
        meta.swap = 0;
        meta.x_bare = 0;
        meta.x_check = 0;
        meta.x_harvest = 0;
        meta.x_version_kind = 0;
        meta.x_bad_checksum = 0;
        meta.x_counts_packets = 0;
        meta.x_packets_index = 0;
        meta.x_counts_answers = 0;
        meta.x_answers_index = 0;
        transition packet;
    }
    state packet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        ipv4_sum.add(hdr.ipv4);
        meta.x_bad_checksum = (bit<1>)ipv4_sum.verify();
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.reserved_to_fragment_offset, hdr.ipv4.protocol) {
            (0x45, 0x0 &&& 0x3fff, 0x11): udp;
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
        meta.x_version_kind = hdr.netfold.version_kind;
        transition select(hdr.netfold.flags) {
            0x80 &&& 0x80: bare;
            default: lanes;
        }
    }
    state lanes {
        pkt.extract(hdr.lanes_0);
        pkt.extract(hdr.lanes_1);
        transition accept;
    }
    state bare {
        meta.x_bare = 1;
        transition accept;
    }
}

struct claim_cells_t {
    bit<32> seen;
    bit<32> chunk;
}
struct sum_pair_t {
    bit<32> first;
    bit<32> second;
}

control IngressImpl(
    inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
    in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
    inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    @id(0x12000001) Counter<bit<32>, bit<8>>(15, CounterType_t.PACKETS) packets;
    @id(0x12000002) Counter<bit<32>, bit<8>>(2, CounterType_t.PACKETS) answers;

    @hidden
    action x_check_1() {
        meta.x_check = 1;
    }
    @hidden
    action x_check_2() {
        meta.x_check = 2;
    }
    @hidden
    action x_check_3() {
        meta.x_check = 3;
    }
    @hidden
    action x_check_4() {
        meta.x_check = 4;
    }
    @hidden
    table x_checks {
        key = {
            hdr.netfold.isValid(): ternary;
            meta.x_bad_checksum: ternary;
            hdr.netfold.version_kind[7:4]: ternary;
            meta.x_bare: ternary;
            hdr.ipv4.total_len: ternary;
            hdr.udp.length: ternary;
            hdr.netfold.op_class[7:4]: ternary;
            hdr.netfold.flags: ternary;
        }
        actions = {
            x_check_1;
            NoAction;
            x_check_4;
            x_check_2;
            x_check_3;
        }
        const default_action = x_check_1();
        size = 7;
        const entries = {
            (true, 0x1, _, _, _, _, _, _): x_check_1();
            (true, 0x0, 0x2, 0x0, 0x13c, 0x128, 0x0, _): NoAction();
            (true, 0x0, 0x2, 0x0, 0x13c, 0x128, _, _): x_check_4();
            (true, 0x0, 0x2, 0x1, 0x3c, 0x28, 0x0, 0x80 &&& 0x80): NoAction();
            (true, 0x0, 0x2, 0x1, 0x3c, 0x28, _, 0x80 &&& 0x80): x_check_4();
            (true, 0x0, 0x2, _, _, _, _, _): x_check_2();
            (true, 0x0, _, _, _, _, _, _): x_check_3();
        }
    }

    @id(0x01000001)
    action admit(@id(1) bit<16> base, @id(2) bit<32> bit_mask, @id(3) bit<32> others, @id(4) bit<16> world, @id(5) bit<16> group) {
        meta.index = base + hdr.netfold.slot_set;
        meta.bit_mask = bit_mask;
        meta.others = others;
        meta.world = world;
        meta.group = group;
    }

    @id(0x01000002)
    action admit_controller(@id(1) bit<16> base) {
        meta.index = base + hdr.netfold.slot_set;
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
            ig_intr_md.ingress_port: ternary @id(1) @name("port");
            hdr.netfold.version_kind[3:0]: ternary @id(2) @name("kind");
            hdr.netfold.job: ternary @id(3) @name("job");
            hdr.netfold.key: ternary @id(4) @name("key");
            hdr.netfold.epoch: ternary @id(5) @name("epoch");
            hdr.netfold.slot_set[15:1]: ternary @id(6) @name("slot");
            hdr.ipv4.src: ternary @id(7) @name("source");
        }
        actions = {
            admit;
            admit_controller;
            deny;
            refuse;
            challenge;
        }
        const default_action = deny(0x5);
        size = 1934;
    }

    @hidden
    action x_zero_absent() {
        hdr.lanes_0.setValid();
        hdr.lanes_1.setValid();
        hdr.lanes_0.d00 = 0;
        hdr.lanes_0.d01 = 0;
        hdr.lanes_0.d02 = 0;
        hdr.lanes_0.d03 = 0;
        hdr.lanes_0.d04 = 0;
        hdr.lanes_0.d05 = 0;
        hdr.lanes_0.d06 = 0;
        hdr.lanes_0.d07 = 0;
        hdr.lanes_0.d08 = 0;
        hdr.lanes_0.d09 = 0;
        hdr.lanes_0.d10 = 0;
        hdr.lanes_0.d11 = 0;
        hdr.lanes_0.d12 = 0;
        hdr.lanes_0.d13 = 0;
        hdr.lanes_0.d14 = 0;
        hdr.lanes_0.d15 = 0;
        hdr.lanes_0.d16 = 0;
        hdr.lanes_0.d17 = 0;
        hdr.lanes_0.d18 = 0;
        hdr.lanes_0.d19 = 0;
        hdr.lanes_0.d20 = 0;
        hdr.lanes_0.d21 = 0;
        hdr.lanes_0.d22 = 0;
        hdr.lanes_0.d23 = 0;
        hdr.lanes_0.d24 = 0;
        hdr.lanes_0.d25 = 0;
        hdr.lanes_0.d26 = 0;
        hdr.lanes_0.d27 = 0;
        hdr.lanes_0.d28 = 0;
        hdr.lanes_0.d29 = 0;
        hdr.lanes_0.d30 = 0;
        hdr.lanes_0.d31 = 0;
        hdr.lanes_1.d32 = 0;
        hdr.lanes_1.d33 = 0;
        hdr.lanes_1.d34 = 0;
        hdr.lanes_1.d35 = 0;
        hdr.lanes_1.d36 = 0;
        hdr.lanes_1.d37 = 0;
        hdr.lanes_1.d38 = 0;
        hdr.lanes_1.d39 = 0;
        hdr.lanes_1.d40 = 0;
        hdr.lanes_1.d41 = 0;
        hdr.lanes_1.d42 = 0;
        hdr.lanes_1.d43 = 0;
        hdr.lanes_1.d44 = 0;
        hdr.lanes_1.d45 = 0;
        hdr.lanes_1.d46 = 0;
        hdr.lanes_1.d47 = 0;
        hdr.lanes_1.d48 = 0;
        hdr.lanes_1.d49 = 0;
        hdr.lanes_1.d50 = 0;
        hdr.lanes_1.d51 = 0;
        hdr.lanes_1.d52 = 0;
        hdr.lanes_1.d53 = 0;
        hdr.lanes_1.d54 = 0;
        hdr.lanes_1.d55 = 0;
        hdr.lanes_1.d56 = 0;
        hdr.lanes_1.d57 = 0;
        hdr.lanes_1.d58 = 0;
        hdr.lanes_1.d59 = 0;
        hdr.lanes_1.d60 = 0;
        hdr.lanes_1.d61 = 0;
        hdr.lanes_1.d62 = 0;
        hdr.lanes_1.d63 = 0;
    }
    @hidden
    action x_zero_present() {
        hdr.lanes_0.d00 = 0;
        hdr.lanes_0.d01 = 0;
        hdr.lanes_0.d02 = 0;
        hdr.lanes_0.d03 = 0;
        hdr.lanes_0.d04 = 0;
        hdr.lanes_0.d05 = 0;
        hdr.lanes_0.d06 = 0;
        hdr.lanes_0.d07 = 0;
        hdr.lanes_0.d08 = 0;
        hdr.lanes_0.d09 = 0;
        hdr.lanes_0.d10 = 0;
        hdr.lanes_0.d11 = 0;
        hdr.lanes_0.d12 = 0;
        hdr.lanes_0.d13 = 0;
        hdr.lanes_0.d14 = 0;
        hdr.lanes_0.d15 = 0;
        hdr.lanes_0.d16 = 0;
        hdr.lanes_0.d17 = 0;
        hdr.lanes_0.d18 = 0;
        hdr.lanes_0.d19 = 0;
        hdr.lanes_0.d20 = 0;
        hdr.lanes_0.d21 = 0;
        hdr.lanes_0.d22 = 0;
        hdr.lanes_0.d23 = 0;
        hdr.lanes_0.d24 = 0;
        hdr.lanes_0.d25 = 0;
        hdr.lanes_0.d26 = 0;
        hdr.lanes_0.d27 = 0;
        hdr.lanes_0.d28 = 0;
        hdr.lanes_0.d29 = 0;
        hdr.lanes_0.d30 = 0;
        hdr.lanes_0.d31 = 0;
        hdr.lanes_1.d32 = 0;
        hdr.lanes_1.d33 = 0;
        hdr.lanes_1.d34 = 0;
        hdr.lanes_1.d35 = 0;
        hdr.lanes_1.d36 = 0;
        hdr.lanes_1.d37 = 0;
        hdr.lanes_1.d38 = 0;
        hdr.lanes_1.d39 = 0;
        hdr.lanes_1.d40 = 0;
        hdr.lanes_1.d41 = 0;
        hdr.lanes_1.d42 = 0;
        hdr.lanes_1.d43 = 0;
        hdr.lanes_1.d44 = 0;
        hdr.lanes_1.d45 = 0;
        hdr.lanes_1.d46 = 0;
        hdr.lanes_1.d47 = 0;
        hdr.lanes_1.d48 = 0;
        hdr.lanes_1.d49 = 0;
        hdr.lanes_1.d50 = 0;
        hdr.lanes_1.d51 = 0;
        hdr.lanes_1.d52 = 0;
        hdr.lanes_1.d53 = 0;
        hdr.lanes_1.d54 = 0;
        hdr.lanes_1.d55 = 0;
        hdr.lanes_1.d56 = 0;
        hdr.lanes_1.d57 = 0;
        hdr.lanes_1.d58 = 0;
        hdr.lanes_1.d59 = 0;
        hdr.lanes_1.d60 = 0;
        hdr.lanes_1.d61 = 0;
        hdr.lanes_1.d62 = 0;
        hdr.lanes_1.d63 = 0;
    }
    @hidden
    table x_zero {
        key = {
            meta.x_bare: ternary;
            meta.controller: ternary;
        }
        actions = {
            x_zero_absent;
            x_zero_present;
            NoAction;
        }
        const default_action = NoAction();
        size = 2;
        const entries = {
            (1, _): x_zero_absent();
            (0, 0x1): x_zero_present();
        }
    }

    @id(0x16000001) Register<claim_cells_t, bit<16>>(8192) claim;
    RegisterAction<claim_cells_t, bit<16>, bit<32>>(claim) claim_peek = {
        void apply(inout claim_cells_t cell, out bit<32> out_word) {
            out_word = cell.seen;
        }
    };
    @hidden
    action claim_peek_out() {
        meta.seen = claim_peek.execute(meta.index);
    }
    RegisterAction<claim_cells_t, bit<16>, bit<32>>(claim) claim_touch = {
        void apply(inout claim_cells_t cell, out bit<32> out_word) {
            out_word = 0;
            if (hdr.netfold.chunk == cell.chunk) {
                out_word = cell.seen;
            }
            if ((int<32>)hdr.netfold.chunk - (int<32>)cell.chunk > 0) {
                cell.seen = meta.bit_mask;
                cell.chunk = hdr.netfold.chunk;
            } else if (hdr.netfold.chunk == cell.chunk) {
                cell.seen = cell.seen | meta.bit_mask;
            }
        }
    };
    @hidden
    action claim_touch_out() {
        meta.seen = claim_touch.execute(meta.index);
    }
    @hidden
    table x_claim {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.x_version_kind: ternary;
        }
        actions = {
            NoAction;
            claim_peek_out;
            claim_touch_out;
        }
        const default_action = NoAction();
        size = 2;
        const entries = {
            (0x0, 0x0, 0x6 &&& 0xf): claim_peek_out();
            (0x0, 0x0, _): claim_touch_out();
        }
    }

    @id(0x16000003) Register<bit<32>, bit<16>>(8192) version;
    RegisterAction<bit<32>, bit<16>, bit<32>>(version) version_peek = {
        void apply(inout bit<32> cell, out bit<32> out_word) {
            out_word = cell;
        }
    };
    @hidden
    action version_peek_out() {
        meta.stored = version_peek.execute(meta.index);
    }
    RegisterAction<bit<32>, bit<16>, bit<32>>(version) version_touch = {
        void apply(inout bit<32> cell, out bit<32> out_word) {
            out_word = cell;
            if ((int<32>)hdr.netfold.chunk - (int<32>)cell > 0) {
                cell = hdr.netfold.chunk;
            }
        }
    };
    @hidden
    action version_touch_out() {
        meta.stored = version_touch.execute(meta.index);
    }
    @hidden
    table x_version {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.x_version_kind: ternary;
        }
        actions = {
            NoAction;
            version_peek_out;
            version_touch_out;
        }
        const default_action = NoAction();
        size = 2;
        const entries = {
            (0x0, 0x0, 0x6 &&& 0xf): version_peek_out();
            (0x0, 0x0, _): version_touch_out();
        }
    }

    @hidden
    action x_compare() {
        meta.diff = hdr.netfold.chunk - meta.stored;
        meta.duplicate = meta.seen & meta.bit_mask;
        meta.missing = meta.others & ~meta.seen;
    }

    @id(0x16000004) Register<bit<8>, bit<16>>(8192) exponent;
    RegisterAction<bit<8>, bit<16>, bit<8>>(exponent) exponent_clear = {
        void apply(inout bit<8> cell, out bit<8> out_word) {
            cell = 8w0x0;
            out_word = 0;
        }
    };
    @hidden
    action exponent_clear_quiet() {
        exponent_clear.execute(meta.index);
    }
    RegisterAction<bit<8>, bit<16>, bit<8>>(exponent) exponent_raise = {
        void apply(inout bit<8> cell, out bit<8> out_word) {
            cell = max(cell, hdr.netfold.exp_next);
            out_word = cell;
        }
    };
    @hidden
    action exponent_raise_out() {
        hdr.netfold.exp_next = exponent_raise.execute(meta.index);
    }
    RegisterAction<bit<8>, bit<16>, bit<8>>(exponent) exponent_store = {
        void apply(inout bit<8> cell, out bit<8> out_word) {
            cell = hdr.netfold.exp_next;
            out_word = cell;
        }
    };
    @hidden
    action exponent_store_out() {
        hdr.netfold.exp_next = exponent_store.execute(meta.index);
    }
    RegisterAction<bit<8>, bit<16>, bit<8>>(exponent) exponent_read = {
        void apply(inout bit<8> cell, out bit<8> out_word) {
            out_word = cell;
        }
    };
    @hidden
    action exponent_read_out() {
        hdr.netfold.exp_next = exponent_read.execute(meta.index);
    }
    @hidden
    table x_exponent {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
        }
        actions = {
            NoAction;
            exponent_clear_quiet;
            exponent_raise_out;
            exponent_store_out;
            exponent_read_out;
        }
        const default_action = NoAction();
        size = 11;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _): exponent_clear_quiet();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0): exponent_raise_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0): exponent_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _): exponent_read_out();
        }
    }

    @id(0x16001000) Register<sum_pair_t, bit<16>>(8192) sum_00;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_00) sum_00_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d00;
            cells.second = hdr.lanes_1.d32;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_00_store_out() {
        hdr.lanes_0.d00 = sum_00_store.execute(meta.index, hdr.lanes_1.d32);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_00) sum_00_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d00;
            cells.second = cells.second + hdr.lanes_1.d32;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_00_sum_out() {
        hdr.lanes_0.d00 = sum_00_sum.execute(meta.index, hdr.lanes_1.d32);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_00) sum_00_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_00_read_out() {
        hdr.lanes_0.d00 = sum_00_read.execute(meta.index, hdr.lanes_1.d32);
    }
    @hidden
    table x_sum_00 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_00_store_out;
            sum_00_sum_out;
            sum_00_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_00_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_00_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_00_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_00_read_out();
        }
    }

    @id(0x16001001) Register<sum_pair_t, bit<16>>(8192) sum_01;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_01) sum_01_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d01;
            cells.second = hdr.lanes_1.d33;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_01_store_out() {
        hdr.lanes_0.d01 = sum_01_store.execute(meta.index, hdr.lanes_1.d33);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_01) sum_01_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d01;
            cells.second = cells.second + hdr.lanes_1.d33;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_01_sum_out() {
        hdr.lanes_0.d01 = sum_01_sum.execute(meta.index, hdr.lanes_1.d33);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_01) sum_01_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_01_read_out() {
        hdr.lanes_0.d01 = sum_01_read.execute(meta.index, hdr.lanes_1.d33);
    }
    @hidden
    table x_sum_01 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_01_store_out;
            sum_01_sum_out;
            sum_01_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_01_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_01_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_01_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_01_read_out();
        }
    }

    @id(0x16001002) Register<sum_pair_t, bit<16>>(8192) sum_02;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_02) sum_02_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d02;
            cells.second = hdr.lanes_1.d34;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_02_store_out() {
        hdr.lanes_0.d02 = sum_02_store.execute(meta.index, hdr.lanes_1.d34);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_02) sum_02_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d02;
            cells.second = cells.second + hdr.lanes_1.d34;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_02_sum_out() {
        hdr.lanes_0.d02 = sum_02_sum.execute(meta.index, hdr.lanes_1.d34);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_02) sum_02_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_02_read_out() {
        hdr.lanes_0.d02 = sum_02_read.execute(meta.index, hdr.lanes_1.d34);
    }
    @hidden
    table x_sum_02 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_02_store_out;
            sum_02_sum_out;
            sum_02_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_02_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_02_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_02_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_02_read_out();
        }
    }

    @id(0x16001003) Register<sum_pair_t, bit<16>>(8192) sum_03;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_03) sum_03_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d03;
            cells.second = hdr.lanes_1.d35;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_03_store_out() {
        hdr.lanes_0.d03 = sum_03_store.execute(meta.index, hdr.lanes_1.d35);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_03) sum_03_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d03;
            cells.second = cells.second + hdr.lanes_1.d35;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_03_sum_out() {
        hdr.lanes_0.d03 = sum_03_sum.execute(meta.index, hdr.lanes_1.d35);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_03) sum_03_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_03_read_out() {
        hdr.lanes_0.d03 = sum_03_read.execute(meta.index, hdr.lanes_1.d35);
    }
    @hidden
    table x_sum_03 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_03_store_out;
            sum_03_sum_out;
            sum_03_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_03_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_03_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_03_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_03_read_out();
        }
    }

    @id(0x16001004) Register<sum_pair_t, bit<16>>(8192) sum_04;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_04) sum_04_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d04;
            cells.second = hdr.lanes_1.d36;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_04_store_out() {
        hdr.lanes_0.d04 = sum_04_store.execute(meta.index, hdr.lanes_1.d36);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_04) sum_04_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d04;
            cells.second = cells.second + hdr.lanes_1.d36;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_04_sum_out() {
        hdr.lanes_0.d04 = sum_04_sum.execute(meta.index, hdr.lanes_1.d36);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_04) sum_04_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_04_read_out() {
        hdr.lanes_0.d04 = sum_04_read.execute(meta.index, hdr.lanes_1.d36);
    }
    @hidden
    table x_sum_04 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_04_store_out;
            sum_04_sum_out;
            sum_04_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_04_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_04_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_04_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_04_read_out();
        }
    }

    @id(0x16001005) Register<sum_pair_t, bit<16>>(8192) sum_05;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_05) sum_05_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d05;
            cells.second = hdr.lanes_1.d37;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_05_store_out() {
        hdr.lanes_0.d05 = sum_05_store.execute(meta.index, hdr.lanes_1.d37);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_05) sum_05_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d05;
            cells.second = cells.second + hdr.lanes_1.d37;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_05_sum_out() {
        hdr.lanes_0.d05 = sum_05_sum.execute(meta.index, hdr.lanes_1.d37);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_05) sum_05_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_05_read_out() {
        hdr.lanes_0.d05 = sum_05_read.execute(meta.index, hdr.lanes_1.d37);
    }
    @hidden
    table x_sum_05 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_05_store_out;
            sum_05_sum_out;
            sum_05_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_05_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_05_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_05_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_05_read_out();
        }
    }

    @id(0x16001006) Register<sum_pair_t, bit<16>>(8192) sum_06;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_06) sum_06_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d06;
            cells.second = hdr.lanes_1.d38;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_06_store_out() {
        hdr.lanes_0.d06 = sum_06_store.execute(meta.index, hdr.lanes_1.d38);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_06) sum_06_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d06;
            cells.second = cells.second + hdr.lanes_1.d38;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_06_sum_out() {
        hdr.lanes_0.d06 = sum_06_sum.execute(meta.index, hdr.lanes_1.d38);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_06) sum_06_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_06_read_out() {
        hdr.lanes_0.d06 = sum_06_read.execute(meta.index, hdr.lanes_1.d38);
    }
    @hidden
    table x_sum_06 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_06_store_out;
            sum_06_sum_out;
            sum_06_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_06_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_06_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_06_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_06_read_out();
        }
    }

    @id(0x16001007) Register<sum_pair_t, bit<16>>(8192) sum_07;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_07) sum_07_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d07;
            cells.second = hdr.lanes_1.d39;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_07_store_out() {
        hdr.lanes_0.d07 = sum_07_store.execute(meta.index, hdr.lanes_1.d39);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_07) sum_07_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d07;
            cells.second = cells.second + hdr.lanes_1.d39;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_07_sum_out() {
        hdr.lanes_0.d07 = sum_07_sum.execute(meta.index, hdr.lanes_1.d39);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_07) sum_07_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_07_read_out() {
        hdr.lanes_0.d07 = sum_07_read.execute(meta.index, hdr.lanes_1.d39);
    }
    @hidden
    table x_sum_07 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_07_store_out;
            sum_07_sum_out;
            sum_07_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_07_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_07_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_07_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_07_read_out();
        }
    }

    @id(0x16001008) Register<sum_pair_t, bit<16>>(8192) sum_08;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_08) sum_08_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d08;
            cells.second = hdr.lanes_1.d40;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_08_store_out() {
        hdr.lanes_0.d08 = sum_08_store.execute(meta.index, hdr.lanes_1.d40);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_08) sum_08_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d08;
            cells.second = cells.second + hdr.lanes_1.d40;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_08_sum_out() {
        hdr.lanes_0.d08 = sum_08_sum.execute(meta.index, hdr.lanes_1.d40);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_08) sum_08_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_08_read_out() {
        hdr.lanes_0.d08 = sum_08_read.execute(meta.index, hdr.lanes_1.d40);
    }
    @hidden
    table x_sum_08 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_08_store_out;
            sum_08_sum_out;
            sum_08_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_08_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_08_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_08_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_08_read_out();
        }
    }

    @id(0x16001009) Register<sum_pair_t, bit<16>>(8192) sum_09;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_09) sum_09_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d09;
            cells.second = hdr.lanes_1.d41;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_09_store_out() {
        hdr.lanes_0.d09 = sum_09_store.execute(meta.index, hdr.lanes_1.d41);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_09) sum_09_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d09;
            cells.second = cells.second + hdr.lanes_1.d41;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_09_sum_out() {
        hdr.lanes_0.d09 = sum_09_sum.execute(meta.index, hdr.lanes_1.d41);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_09) sum_09_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_09_read_out() {
        hdr.lanes_0.d09 = sum_09_read.execute(meta.index, hdr.lanes_1.d41);
    }
    @hidden
    table x_sum_09 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_09_store_out;
            sum_09_sum_out;
            sum_09_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_09_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_09_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_09_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_09_read_out();
        }
    }

    @id(0x1600100a) Register<sum_pair_t, bit<16>>(8192) sum_10;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_10) sum_10_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d10;
            cells.second = hdr.lanes_1.d42;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_10_store_out() {
        hdr.lanes_0.d10 = sum_10_store.execute(meta.index, hdr.lanes_1.d42);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_10) sum_10_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d10;
            cells.second = cells.second + hdr.lanes_1.d42;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_10_sum_out() {
        hdr.lanes_0.d10 = sum_10_sum.execute(meta.index, hdr.lanes_1.d42);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_10) sum_10_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_10_read_out() {
        hdr.lanes_0.d10 = sum_10_read.execute(meta.index, hdr.lanes_1.d42);
    }
    @hidden
    table x_sum_10 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_10_store_out;
            sum_10_sum_out;
            sum_10_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_10_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_10_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_10_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_10_read_out();
        }
    }

    @id(0x1600100b) Register<sum_pair_t, bit<16>>(8192) sum_11;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_11) sum_11_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d11;
            cells.second = hdr.lanes_1.d43;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_11_store_out() {
        hdr.lanes_0.d11 = sum_11_store.execute(meta.index, hdr.lanes_1.d43);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_11) sum_11_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d11;
            cells.second = cells.second + hdr.lanes_1.d43;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_11_sum_out() {
        hdr.lanes_0.d11 = sum_11_sum.execute(meta.index, hdr.lanes_1.d43);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_11) sum_11_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_11_read_out() {
        hdr.lanes_0.d11 = sum_11_read.execute(meta.index, hdr.lanes_1.d43);
    }
    @hidden
    table x_sum_11 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_11_store_out;
            sum_11_sum_out;
            sum_11_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_11_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_11_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_11_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_11_read_out();
        }
    }

    @id(0x1600100c) Register<sum_pair_t, bit<16>>(8192) sum_12;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_12) sum_12_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d12;
            cells.second = hdr.lanes_1.d44;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_12_store_out() {
        hdr.lanes_0.d12 = sum_12_store.execute(meta.index, hdr.lanes_1.d44);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_12) sum_12_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d12;
            cells.second = cells.second + hdr.lanes_1.d44;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_12_sum_out() {
        hdr.lanes_0.d12 = sum_12_sum.execute(meta.index, hdr.lanes_1.d44);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_12) sum_12_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_12_read_out() {
        hdr.lanes_0.d12 = sum_12_read.execute(meta.index, hdr.lanes_1.d44);
    }
    @hidden
    table x_sum_12 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_12_store_out;
            sum_12_sum_out;
            sum_12_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_12_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_12_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_12_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_12_read_out();
        }
    }

    @id(0x1600100d) Register<sum_pair_t, bit<16>>(8192) sum_13;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_13) sum_13_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d13;
            cells.second = hdr.lanes_1.d45;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_13_store_out() {
        hdr.lanes_0.d13 = sum_13_store.execute(meta.index, hdr.lanes_1.d45);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_13) sum_13_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d13;
            cells.second = cells.second + hdr.lanes_1.d45;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_13_sum_out() {
        hdr.lanes_0.d13 = sum_13_sum.execute(meta.index, hdr.lanes_1.d45);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_13) sum_13_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_13_read_out() {
        hdr.lanes_0.d13 = sum_13_read.execute(meta.index, hdr.lanes_1.d45);
    }
    @hidden
    table x_sum_13 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_13_store_out;
            sum_13_sum_out;
            sum_13_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_13_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_13_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_13_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_13_read_out();
        }
    }

    @id(0x1600100e) Register<sum_pair_t, bit<16>>(8192) sum_14;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_14) sum_14_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d14;
            cells.second = hdr.lanes_1.d46;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_14_store_out() {
        hdr.lanes_0.d14 = sum_14_store.execute(meta.index, hdr.lanes_1.d46);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_14) sum_14_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d14;
            cells.second = cells.second + hdr.lanes_1.d46;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_14_sum_out() {
        hdr.lanes_0.d14 = sum_14_sum.execute(meta.index, hdr.lanes_1.d46);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_14) sum_14_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_14_read_out() {
        hdr.lanes_0.d14 = sum_14_read.execute(meta.index, hdr.lanes_1.d46);
    }
    @hidden
    table x_sum_14 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_14_store_out;
            sum_14_sum_out;
            sum_14_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_14_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_14_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_14_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_14_read_out();
        }
    }

    @id(0x1600100f) Register<sum_pair_t, bit<16>>(8192) sum_15;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_15) sum_15_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d15;
            cells.second = hdr.lanes_1.d47;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_15_store_out() {
        hdr.lanes_0.d15 = sum_15_store.execute(meta.index, hdr.lanes_1.d47);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_15) sum_15_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d15;
            cells.second = cells.second + hdr.lanes_1.d47;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_15_sum_out() {
        hdr.lanes_0.d15 = sum_15_sum.execute(meta.index, hdr.lanes_1.d47);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_15) sum_15_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_15_read_out() {
        hdr.lanes_0.d15 = sum_15_read.execute(meta.index, hdr.lanes_1.d47);
    }
    @hidden
    table x_sum_15 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_15_store_out;
            sum_15_sum_out;
            sum_15_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_15_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_15_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_15_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_15_read_out();
        }
    }

    @id(0x16001010) Register<sum_pair_t, bit<16>>(8192) sum_16;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_16) sum_16_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d16;
            cells.second = hdr.lanes_1.d48;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_16_store_out() {
        hdr.lanes_0.d16 = sum_16_store.execute(meta.index, hdr.lanes_1.d48);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_16) sum_16_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d16;
            cells.second = cells.second + hdr.lanes_1.d48;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_16_sum_out() {
        hdr.lanes_0.d16 = sum_16_sum.execute(meta.index, hdr.lanes_1.d48);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_16) sum_16_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_16_read_out() {
        hdr.lanes_0.d16 = sum_16_read.execute(meta.index, hdr.lanes_1.d48);
    }
    @hidden
    table x_sum_16 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_16_store_out;
            sum_16_sum_out;
            sum_16_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_16_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_16_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_16_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_16_read_out();
        }
    }

    @id(0x16001011) Register<sum_pair_t, bit<16>>(8192) sum_17;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_17) sum_17_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d17;
            cells.second = hdr.lanes_1.d49;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_17_store_out() {
        hdr.lanes_0.d17 = sum_17_store.execute(meta.index, hdr.lanes_1.d49);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_17) sum_17_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d17;
            cells.second = cells.second + hdr.lanes_1.d49;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_17_sum_out() {
        hdr.lanes_0.d17 = sum_17_sum.execute(meta.index, hdr.lanes_1.d49);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_17) sum_17_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_17_read_out() {
        hdr.lanes_0.d17 = sum_17_read.execute(meta.index, hdr.lanes_1.d49);
    }
    @hidden
    table x_sum_17 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_17_store_out;
            sum_17_sum_out;
            sum_17_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_17_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_17_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_17_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_17_read_out();
        }
    }

    @id(0x16001012) Register<sum_pair_t, bit<16>>(8192) sum_18;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_18) sum_18_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d18;
            cells.second = hdr.lanes_1.d50;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_18_store_out() {
        hdr.lanes_0.d18 = sum_18_store.execute(meta.index, hdr.lanes_1.d50);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_18) sum_18_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d18;
            cells.second = cells.second + hdr.lanes_1.d50;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_18_sum_out() {
        hdr.lanes_0.d18 = sum_18_sum.execute(meta.index, hdr.lanes_1.d50);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_18) sum_18_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_18_read_out() {
        hdr.lanes_0.d18 = sum_18_read.execute(meta.index, hdr.lanes_1.d50);
    }
    @hidden
    table x_sum_18 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_18_store_out;
            sum_18_sum_out;
            sum_18_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_18_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_18_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_18_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_18_read_out();
        }
    }

    @id(0x16001013) Register<sum_pair_t, bit<16>>(8192) sum_19;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_19) sum_19_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d19;
            cells.second = hdr.lanes_1.d51;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_19_store_out() {
        hdr.lanes_0.d19 = sum_19_store.execute(meta.index, hdr.lanes_1.d51);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_19) sum_19_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d19;
            cells.second = cells.second + hdr.lanes_1.d51;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_19_sum_out() {
        hdr.lanes_0.d19 = sum_19_sum.execute(meta.index, hdr.lanes_1.d51);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_19) sum_19_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_19_read_out() {
        hdr.lanes_0.d19 = sum_19_read.execute(meta.index, hdr.lanes_1.d51);
    }
    @hidden
    table x_sum_19 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_19_store_out;
            sum_19_sum_out;
            sum_19_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_19_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_19_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_19_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_19_read_out();
        }
    }

    @id(0x16001014) Register<sum_pair_t, bit<16>>(8192) sum_20;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_20) sum_20_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d20;
            cells.second = hdr.lanes_1.d52;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_20_store_out() {
        hdr.lanes_0.d20 = sum_20_store.execute(meta.index, hdr.lanes_1.d52);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_20) sum_20_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d20;
            cells.second = cells.second + hdr.lanes_1.d52;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_20_sum_out() {
        hdr.lanes_0.d20 = sum_20_sum.execute(meta.index, hdr.lanes_1.d52);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_20) sum_20_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_20_read_out() {
        hdr.lanes_0.d20 = sum_20_read.execute(meta.index, hdr.lanes_1.d52);
    }
    @hidden
    table x_sum_20 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_20_store_out;
            sum_20_sum_out;
            sum_20_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_20_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_20_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_20_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_20_read_out();
        }
    }

    @id(0x16001015) Register<sum_pair_t, bit<16>>(8192) sum_21;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_21) sum_21_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d21;
            cells.second = hdr.lanes_1.d53;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_21_store_out() {
        hdr.lanes_0.d21 = sum_21_store.execute(meta.index, hdr.lanes_1.d53);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_21) sum_21_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d21;
            cells.second = cells.second + hdr.lanes_1.d53;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_21_sum_out() {
        hdr.lanes_0.d21 = sum_21_sum.execute(meta.index, hdr.lanes_1.d53);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_21) sum_21_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_21_read_out() {
        hdr.lanes_0.d21 = sum_21_read.execute(meta.index, hdr.lanes_1.d53);
    }
    @hidden
    table x_sum_21 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_21_store_out;
            sum_21_sum_out;
            sum_21_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_21_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_21_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_21_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_21_read_out();
        }
    }

    @id(0x16001016) Register<sum_pair_t, bit<16>>(8192) sum_22;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_22) sum_22_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d22;
            cells.second = hdr.lanes_1.d54;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_22_store_out() {
        hdr.lanes_0.d22 = sum_22_store.execute(meta.index, hdr.lanes_1.d54);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_22) sum_22_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d22;
            cells.second = cells.second + hdr.lanes_1.d54;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_22_sum_out() {
        hdr.lanes_0.d22 = sum_22_sum.execute(meta.index, hdr.lanes_1.d54);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_22) sum_22_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_22_read_out() {
        hdr.lanes_0.d22 = sum_22_read.execute(meta.index, hdr.lanes_1.d54);
    }
    @hidden
    table x_sum_22 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_22_store_out;
            sum_22_sum_out;
            sum_22_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_22_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_22_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_22_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_22_read_out();
        }
    }

    @id(0x16001017) Register<sum_pair_t, bit<16>>(8192) sum_23;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_23) sum_23_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d23;
            cells.second = hdr.lanes_1.d55;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_23_store_out() {
        hdr.lanes_0.d23 = sum_23_store.execute(meta.index, hdr.lanes_1.d55);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_23) sum_23_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d23;
            cells.second = cells.second + hdr.lanes_1.d55;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_23_sum_out() {
        hdr.lanes_0.d23 = sum_23_sum.execute(meta.index, hdr.lanes_1.d55);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_23) sum_23_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_23_read_out() {
        hdr.lanes_0.d23 = sum_23_read.execute(meta.index, hdr.lanes_1.d55);
    }
    @hidden
    table x_sum_23 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_23_store_out;
            sum_23_sum_out;
            sum_23_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_23_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_23_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_23_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_23_read_out();
        }
    }

    @id(0x16001018) Register<sum_pair_t, bit<16>>(8192) sum_24;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_24) sum_24_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d24;
            cells.second = hdr.lanes_1.d56;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_24_store_out() {
        hdr.lanes_0.d24 = sum_24_store.execute(meta.index, hdr.lanes_1.d56);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_24) sum_24_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d24;
            cells.second = cells.second + hdr.lanes_1.d56;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_24_sum_out() {
        hdr.lanes_0.d24 = sum_24_sum.execute(meta.index, hdr.lanes_1.d56);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_24) sum_24_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_24_read_out() {
        hdr.lanes_0.d24 = sum_24_read.execute(meta.index, hdr.lanes_1.d56);
    }
    @hidden
    table x_sum_24 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_24_store_out;
            sum_24_sum_out;
            sum_24_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_24_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_24_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_24_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_24_read_out();
        }
    }

    @id(0x16001019) Register<sum_pair_t, bit<16>>(8192) sum_25;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_25) sum_25_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d25;
            cells.second = hdr.lanes_1.d57;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_25_store_out() {
        hdr.lanes_0.d25 = sum_25_store.execute(meta.index, hdr.lanes_1.d57);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_25) sum_25_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d25;
            cells.second = cells.second + hdr.lanes_1.d57;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_25_sum_out() {
        hdr.lanes_0.d25 = sum_25_sum.execute(meta.index, hdr.lanes_1.d57);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_25) sum_25_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_25_read_out() {
        hdr.lanes_0.d25 = sum_25_read.execute(meta.index, hdr.lanes_1.d57);
    }
    @hidden
    table x_sum_25 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_25_store_out;
            sum_25_sum_out;
            sum_25_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_25_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_25_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_25_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_25_read_out();
        }
    }

    @id(0x1600101a) Register<sum_pair_t, bit<16>>(8192) sum_26;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_26) sum_26_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d26;
            cells.second = hdr.lanes_1.d58;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_26_store_out() {
        hdr.lanes_0.d26 = sum_26_store.execute(meta.index, hdr.lanes_1.d58);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_26) sum_26_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d26;
            cells.second = cells.second + hdr.lanes_1.d58;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_26_sum_out() {
        hdr.lanes_0.d26 = sum_26_sum.execute(meta.index, hdr.lanes_1.d58);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_26) sum_26_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_26_read_out() {
        hdr.lanes_0.d26 = sum_26_read.execute(meta.index, hdr.lanes_1.d58);
    }
    @hidden
    table x_sum_26 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_26_store_out;
            sum_26_sum_out;
            sum_26_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_26_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_26_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_26_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_26_read_out();
        }
    }

    @id(0x1600101b) Register<sum_pair_t, bit<16>>(8192) sum_27;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_27) sum_27_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d27;
            cells.second = hdr.lanes_1.d59;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_27_store_out() {
        hdr.lanes_0.d27 = sum_27_store.execute(meta.index, hdr.lanes_1.d59);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_27) sum_27_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d27;
            cells.second = cells.second + hdr.lanes_1.d59;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_27_sum_out() {
        hdr.lanes_0.d27 = sum_27_sum.execute(meta.index, hdr.lanes_1.d59);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_27) sum_27_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_27_read_out() {
        hdr.lanes_0.d27 = sum_27_read.execute(meta.index, hdr.lanes_1.d59);
    }
    @hidden
    table x_sum_27 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_27_store_out;
            sum_27_sum_out;
            sum_27_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_27_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_27_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_27_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_27_read_out();
        }
    }

    @id(0x1600101c) Register<sum_pair_t, bit<16>>(8192) sum_28;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_28) sum_28_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d28;
            cells.second = hdr.lanes_1.d60;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_28_store_out() {
        hdr.lanes_0.d28 = sum_28_store.execute(meta.index, hdr.lanes_1.d60);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_28) sum_28_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d28;
            cells.second = cells.second + hdr.lanes_1.d60;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_28_sum_out() {
        hdr.lanes_0.d28 = sum_28_sum.execute(meta.index, hdr.lanes_1.d60);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_28) sum_28_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_28_read_out() {
        hdr.lanes_0.d28 = sum_28_read.execute(meta.index, hdr.lanes_1.d60);
    }
    @hidden
    table x_sum_28 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_28_store_out;
            sum_28_sum_out;
            sum_28_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_28_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_28_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_28_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_28_read_out();
        }
    }

    @id(0x1600101d) Register<sum_pair_t, bit<16>>(8192) sum_29;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_29) sum_29_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d29;
            cells.second = hdr.lanes_1.d61;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_29_store_out() {
        hdr.lanes_0.d29 = sum_29_store.execute(meta.index, hdr.lanes_1.d61);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_29) sum_29_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d29;
            cells.second = cells.second + hdr.lanes_1.d61;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_29_sum_out() {
        hdr.lanes_0.d29 = sum_29_sum.execute(meta.index, hdr.lanes_1.d61);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_29) sum_29_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_29_read_out() {
        hdr.lanes_0.d29 = sum_29_read.execute(meta.index, hdr.lanes_1.d61);
    }
    @hidden
    table x_sum_29 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_29_store_out;
            sum_29_sum_out;
            sum_29_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_29_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_29_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_29_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_29_read_out();
        }
    }

    @id(0x1600101e) Register<sum_pair_t, bit<16>>(8192) sum_30;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_30) sum_30_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d30;
            cells.second = hdr.lanes_1.d62;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_30_store_out() {
        hdr.lanes_0.d30 = sum_30_store.execute(meta.index, hdr.lanes_1.d62);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_30) sum_30_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d30;
            cells.second = cells.second + hdr.lanes_1.d62;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_30_sum_out() {
        hdr.lanes_0.d30 = sum_30_sum.execute(meta.index, hdr.lanes_1.d62);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_30) sum_30_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_30_read_out() {
        hdr.lanes_0.d30 = sum_30_read.execute(meta.index, hdr.lanes_1.d62);
    }
    @hidden
    table x_sum_30 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_30_store_out;
            sum_30_sum_out;
            sum_30_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_30_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_30_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_30_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_30_read_out();
        }
    }

    @id(0x1600101f) Register<sum_pair_t, bit<16>>(8192) sum_31;
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_31) sum_31_store = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = hdr.lanes_0.d31;
            cells.second = hdr.lanes_1.d63;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_31_store_out() {
        hdr.lanes_0.d31 = sum_31_store.execute(meta.index, hdr.lanes_1.d63);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_31) sum_31_sum = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            cells.first = cells.first + hdr.lanes_0.d31;
            cells.second = cells.second + hdr.lanes_1.d63;
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_31_sum_out() {
        hdr.lanes_0.d31 = sum_31_sum.execute(meta.index, hdr.lanes_1.d63);
    }
    RegisterAction2<sum_pair_t, bit<16>, bit<32>, bit<32>>(sum_31) sum_31_read = {
        void apply(inout sum_pair_t cells, out bit<32> low, out bit<32> high) {
            low = cells.first;
            high = cells.second;
        }
    };
    @hidden
    action sum_31_read_out() {
        hdr.lanes_0.d31 = sum_31_read.execute(meta.index, hdr.lanes_1.d63);
    }
    @hidden
    table x_sum_31 {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            meta.x_version_kind: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.x_bare: ternary;
            meta.missing: ternary;
        }
        actions = {
            NoAction;
            sum_31_store_out;
            sum_31_sum_out;
            sum_31_read_out;
        }
        const default_action = NoAction();
        size = 12;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): NoAction();
            (0x0, 0x0, 0x1, _, _, _, _, _): sum_31_store_out();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): NoAction();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x0, _): sum_31_sum_out();
            (0x0, 0x0, _, _, 0x0, 0x0, 0x1, _): NoAction();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): sum_31_store_out();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, 0x0): sum_31_read_out();
        }
    }

    @hidden
    action x_outcome_0() {
        hdr.netfold.chunk = meta.stored;
        hdr.netfold.bitmap = meta.seen;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_1() {
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_2() {
        hdr.netfold.version_kind[3:0] = 4w0x4;
        hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
        hdr.udp.length = 16w0x28;
        hdr.ipv4.total_len = 16w0x3c;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        hdr.lanes_0.setInvalid();
        hdr.lanes_1.setInvalid();
        meta.x_counts_packets = 1;
        meta.x_packets_index = 8w0xa;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_3() {
        hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
        hdr.netfold.version_kind[3:0] = 4w0x2;
        hdr.netfold.bitmap = meta.others | meta.bit_mask;
        hdr.netfold.count = meta.world;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        meta.x_counts_answers = 1;
        meta.x_answers_index = 8w0x0;
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.mcast_grp_a = meta.group;
    }
    @hidden
    action x_outcome_4() {
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_dprsr_md.drop_ctl = 1;
    }
    @hidden
    action x_outcome_5() {
        hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
        hdr.netfold.version_kind[3:0] = 4w0x2;
        hdr.netfold.bitmap = meta.others | meta.bit_mask;
        hdr.netfold.count = meta.world;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        meta.x_counts_answers = 1;
        meta.x_answers_index = 8w0x1;
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_6() {
        meta.x_counts_packets = 1;
        meta.x_packets_index = 8w0xb;
        ig_dprsr_md.drop_ctl = 1;
    }
    @hidden
    action x_outcome_7() {
        hdr.netfold.version_kind[3:0] = 4w0x5;
        hdr.netfold.reason = meta.reason;
        hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
        hdr.udp.length = 16w0x28;
        hdr.ipv4.total_len = 16w0x3c;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        hdr.lanes_0.setInvalid();
        hdr.lanes_1.setInvalid();
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_8() {
        hdr.netfold.chunk = meta.others;
        hdr.netfold.bitmap = meta.bit_mask;
        hdr.netfold.version_kind[3:0] = 4w0x5;
        hdr.netfold.reason = meta.reason;
        hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
        hdr.udp.length = 16w0x28;
        hdr.ipv4.total_len = 16w0x3c;
        hdr.ipv4.ttl = 8w0x40;
        hdr.udp.checksum = 16w0x0;
        bit<48> old_0 = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = old_0;
        bit<32> old_1 = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = old_1;
        bit<16> old_2 = hdr.udp.dst_port;
        hdr.udp.dst_port = hdr.udp.src_port;
        hdr.udp.src_port = old_2;
        hdr.lanes_0.setInvalid();
        hdr.lanes_1.setInvalid();
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
    }
    @hidden
    action x_outcome_9() {
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.reason;
    }
    @hidden
    action x_outcome_10() {
        meta.x_counts_packets = 1;
        meta.x_packets_index = meta.x_check;
        ig_dprsr_md.drop_ctl = 1;
    }
    @hidden
    table x_outcome {
        key = {
            meta.x_check: ternary;
            meta.reason: ternary;
            meta.controller: ternary;
            hdr.netfold.version_kind[3:0]: ternary;
            meta.diff: ternary;
            meta.duplicate: ternary;
            meta.missing: ternary;
            meta.answer: ternary;
        }
        actions = {
            x_outcome_10;
            x_outcome_0;
            x_outcome_1;
            x_outcome_2;
            x_outcome_3;
            x_outcome_4;
            x_outcome_5;
            x_outcome_6;
            x_outcome_7;
            x_outcome_8;
            x_outcome_9;
        }
        const default_action = x_outcome_10();
        size = 16;
        const entries = {
            (0x0, 0x0, 0x1, 0x0 &&& 0x1, _, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, 0x0 &&& 0x2, _, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, 0x0 &&& 0x4, _, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, 0x8 &&& 0x8, _, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, _, 0x80000000 &&& 0x80000000, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, _, 0x0, _, _, _): x_outcome_0();
            (0x0, 0x0, 0x1, _, _, _, _, _): x_outcome_1();
            (0x0, 0x0, _, _, 0x80000000 &&& 0x80000000, _, _, _): x_outcome_2();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, 0x0, _): x_outcome_3();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, 0x0, _, _): x_outcome_4();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, 0x0, _): x_outcome_5();
            (0x0, 0x0, _, _, 0x0 &&& 0x80000000, _, _, _): x_outcome_6();
            (0x0, _, _, _, _, _, _, 0x1): x_outcome_7();
            (0x0, _, _, _, _, _, _, 0x3): x_outcome_8();
            (0x0, _, _, _, _, _, _, 0x0): x_outcome_4();
            (0x0, _, _, _, _, _, _, _): x_outcome_9();
        }
    }

    @hidden
    action x_no_lanes() {
        hdr.lanes_0.setInvalid();
        hdr.lanes_1.setInvalid();
    }
    apply {
        x_checks.apply();
        job.apply();
        x_zero.apply();
        x_claim.apply();
        x_version.apply();
        x_compare();
        x_exponent.apply();
        x_sum_00.apply();
        x_sum_01.apply();
        x_sum_02.apply();
        x_sum_03.apply();
        x_sum_04.apply();
        x_sum_05.apply();
        x_sum_06.apply();
        x_sum_07.apply();
        x_sum_08.apply();
        x_sum_09.apply();
        x_sum_10.apply();
        x_sum_11.apply();
        x_sum_12.apply();
        x_sum_13.apply();
        x_sum_14.apply();
        x_sum_15.apply();
        x_sum_16.apply();
        x_sum_17.apply();
        x_sum_18.apply();
        x_sum_19.apply();
        x_sum_20.apply();
        x_sum_21.apply();
        x_sum_22.apply();
        x_sum_23.apply();
        x_sum_24.apply();
        x_sum_25.apply();
        x_sum_26.apply();
        x_sum_27.apply();
        x_sum_28.apply();
        x_sum_29.apply();
        x_sum_30.apply();
        x_sum_31.apply();
        x_outcome.apply();
        if (meta.x_counts_packets == 1) {
            packets.count(meta.x_packets_index);
        }
        if (meta.x_counts_answers == 1) {
            answers.count(meta.x_answers_index);
        }
        if (meta.x_bare == 1) {
            x_no_lanes();
        }
    }
}

control IngressDeparserImpl(
    packet_out pkt, inout headers_t hdr, in metadata_t meta,
    in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.netfold);
        pkt.emit(hdr.lanes_0);
        pkt.emit(hdr.lanes_1);
    }
}

struct egress_headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

struct egress_metadata_t { }

parser EgressParserImpl(
    packet_in pkt, out egress_headers_t hdr, out egress_metadata_t meta,
    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        pkt.extract(hdr.ethernet);
        pkt.extract(hdr.ipv4);
        pkt.extract(hdr.udp);
        transition accept;
    }
}

control EgressImpl(
    inout egress_headers_t hdr, inout egress_metadata_t meta,
    in egress_intrinsic_metadata_t eg_intr_md,
    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
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
            eg_intr_md.egress_rid: exact @id(1) @name("instance");
        }
        actions = {
            rewrite;
            keep;
        }
        const default_action = keep();
        size = 384;
    }

    @hidden
    action x_marked_2() {
        hdr.ipv4.dscp_ecn[1:0] = 2w0x3;
    }
    @hidden
    table x_mark_2 {
        key = {
            eg_intr_md.enq_qdepth: ternary;
            hdr.ipv4.dscp_ecn[1:0]: ternary;
        }
        actions = {
            x_marked_2;
            NoAction;
        }
        const default_action = x_marked_2();
        size = 7;
        const entries = {
            (0x4e, _): NoAction();
            (0x4c &&& 0x7fffe, _): NoAction();
            (0x48 &&& 0x7fffc, _): NoAction();
            (0x40 &&& 0x7fff8, _): NoAction();
            (0x0 &&& 0x7ffc0, _): NoAction();
            (0x4f, _): NoAction();
            (_, 0x0): NoAction();
        }
    }

    apply {
        child.apply();
        x_mark_2.apply();
    }
}

control EgressDeparserImpl(
    packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t meta,
    in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_sum;
    apply {
        hdr.ipv4.checksum = ipv4_sum.update({ hdr.ipv4.version_ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.reserved_to_fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
    }
}

Pipeline(
    IngressParserImpl(), IngressImpl(), IngressDeparserImpl(),
    EgressParserImpl(), EgressImpl(), EgressDeparserImpl()) pipe;
Switch(pipe) main;
