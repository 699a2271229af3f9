// netfold_all_reduce: in-network all-reduce: 8 word lanes of 32 bits, 64 slots x 2 sets, up to 32 children.
// Leaf reducer for a NIC: reduces and forwards, no multicast. Generated; do not edit.
#include <core.p4>
#include <pna.p4>

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
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    netfold_t netfold;
    lanes_0_t lanes_0;
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
    bit<16> way;
    bit<8> x_job_kind;
    bit<16> x_job_job;
    bit<32> x_job_key;
    bit<32> x_job_epoch;
    bit<16> x_job_slot;
    bit<32> x_job_source;
    bit<32> x_transit_destination;
    // Where the packet goes, and scratch.
    bit<16> x_instance;
    bit<16> x_port;
    bit<8> x_send;
    bit<8> x_old0_8;
    bit<8> x_new0_8;
    bit<16> x_swap16;
    bit<48> x_swap48;
    bit<16> x_sum;
    bit<8> x_cond0;
    bit<8> x_cond1;
    bit<32> x_old0;
    bit<32> x_old1;
    bit<32> x_new0;
    bit<32> x_new1;
    bit<32> x_swap32;
}

control PreControlImpl(
    in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
    inout pna_pre_output_metadata_t ostd) {
    apply { }
}

parser MainParserImpl(
    packet_in pkt, out headers_t hdr, inout metadata_t meta,
    in pna_main_parser_input_metadata_t istd) {
    state start {
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
        meta.role = 0;
        meta.up = 0;
        meta.workers = 0;
        meta.settled = 0;
        meta.share = 0;
        meta.tally = 0;
        meta.way = 0;
        meta.x_instance = 0;
        meta.x_port = 0;
        meta.x_send = 0;
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        meta.x_job_source = hdr.ipv4.src;
        meta.x_transit_destination = hdr.ipv4.dst;
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
        meta.x_job_kind = hdr.netfold.version_kind & 8w0xf;
        meta.x_job_job = hdr.netfold.job;
        meta.x_job_key = hdr.netfold.key;
        meta.x_job_epoch = hdr.netfold.epoch;
        meta.x_job_slot = hdr.netfold.slot_set >> 1;
        transition select(hdr.netfold.flags) {
            0x80 &&& 0x80: bare;
            default: lanes;
        }
    }
    state lanes {
        pkt.extract(hdr.lanes_0);
        transition accept;
    }
    state bare {
        transition accept;
    }
}

control MainControlImpl(
    inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
    inout pna_main_output_metadata_t ostd) {
    @id(0x16000001) Register<bit<32>, bit<32>>(128) claim_seen;
    @id(0x16000002) Register<bit<32>, bit<32>>(128) claim_chunk;
    @id(0x16000003) Register<bit<32>, bit<32>>(128) version_chunk;
    @id(0x16000004) Register<bit<8>, bit<32>>(128) exponent_exponent;
    @id(0x16001000) Register<bit<32>, bit<32>>(128) sum_00;
    @id(0x16001001) Register<bit<32>, bit<32>>(128) sum_01;
    @id(0x16001002) Register<bit<32>, bit<32>>(128) sum_02;
    @id(0x16001003) Register<bit<32>, bit<32>>(128) sum_03;
    @id(0x16001004) Register<bit<32>, bit<32>>(128) sum_04;
    @id(0x16001005) Register<bit<32>, bit<32>>(128) sum_05;
    @id(0x16001006) Register<bit<32>, bit<32>>(128) sum_06;
    @id(0x16001007) Register<bit<32>, bit<32>>(128) sum_07;
    @id(0x16000005) Register<bit<32>, bit<32>>(128) settled_chunk;
    @id(0x16000006) Register<bit<32>, bit<32>>(128) shares_children;
    @id(0x16000007) Register<bit<32>, bit<32>>(128) tally_tally;
    @id(0x12000001) Counter<bit<32>, bit<32>>(14, PNA_CounterType_t.PACKETS) packets;
    @id(0x12000002) Counter<bit<32>, bit<32>>(4, PNA_CounterType_t.PACKETS) answers;
    @id(0x12000003) Counter<bit<32>, bit<32>>(1, PNA_CounterType_t.PACKETS) forwarded;

    @hidden
    action claim_peek_out() {
        meta.x_old0 = claim_seen.read(meta.index);
        meta.seen = meta.x_old0;
    }

    @hidden
    action version_peek_out() {
        meta.x_old0 = version_chunk.read(meta.index);
        meta.stored = meta.x_old0;
    }

    @hidden
    action settled_mark() {
        meta.x_old0 = settled_chunk.read(meta.index);
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
        meta.x_new0 = meta.share;
        shares_children.write(meta.index, meta.x_new0);
    }

    @hidden
    action tally_store() {
        meta.x_new0 = meta.tally;
        tally_tally.write(meta.index, meta.x_new0);
    }

    @hidden
    action settled_mark_out() {
        meta.x_old0 = settled_chunk.read(meta.index);
        settled_chunk.write(meta.index, hdr.netfold.chunk);
        meta.settled = meta.x_old0;
    }

    @hidden
    action exponent_store() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
    }

    @hidden
    action sum_store() {
        sum_00.write(meta.index, hdr.lanes_0.d00);
        sum_01.write(meta.index, hdr.lanes_0.d01);
        sum_02.write(meta.index, hdr.lanes_0.d02);
        sum_03.write(meta.index, hdr.lanes_0.d03);
        sum_04.write(meta.index, hdr.lanes_0.d04);
        sum_05.write(meta.index, hdr.lanes_0.d05);
        sum_06.write(meta.index, hdr.lanes_0.d06);
        sum_07.write(meta.index, hdr.lanes_0.d07);
    }

    @hidden
    action shares_read_out() {
        meta.x_old0 = shares_children.read(meta.index);
        hdr.netfold.bitmap = meta.x_old0;
    }

    @hidden
    action shares_store_out() {
        meta.x_new0 = meta.share;
        shares_children.write(meta.index, meta.x_new0);
        hdr.netfold.bitmap = meta.x_new0;
    }

    @hidden
    action settled_read_out() {
        meta.x_old0 = settled_chunk.read(meta.index);
        meta.settled = meta.x_old0;
    }

    @hidden
    action exponent_read_out() {
        meta.x_old0_8 = exponent_exponent.read(meta.index);
        hdr.netfold.exp_next = meta.x_old0_8;
    }

    @hidden
    action tally_read_out() {
        meta.x_old0 = tally_tally.read(meta.index);
        meta.tally = meta.x_old0;
    }

    @hidden
    action sum_read_out() {
        meta.x_old0 = sum_00.read(meta.index);
        hdr.lanes_0.d00 = meta.x_old0;
        meta.x_old0 = sum_01.read(meta.index);
        hdr.lanes_0.d01 = meta.x_old0;
        meta.x_old0 = sum_02.read(meta.index);
        hdr.lanes_0.d02 = meta.x_old0;
        meta.x_old0 = sum_03.read(meta.index);
        hdr.lanes_0.d03 = meta.x_old0;
        meta.x_old0 = sum_04.read(meta.index);
        hdr.lanes_0.d04 = meta.x_old0;
        meta.x_old0 = sum_05.read(meta.index);
        hdr.lanes_0.d05 = meta.x_old0;
        meta.x_old0 = sum_06.read(meta.index);
        hdr.lanes_0.d06 = meta.x_old0;
        meta.x_old0 = sum_07.read(meta.index);
        hdr.lanes_0.d07 = meta.x_old0;
    }

    @hidden
    action shares_add_out() {
        meta.x_old0 = shares_children.read(meta.index);
        meta.x_new0 = meta.x_old0 | meta.share;
        shares_children.write(meta.index, meta.x_new0);
        hdr.netfold.bitmap = meta.x_new0;
    }

    @hidden
    action tally_add_out() {
        meta.x_old0 = tally_tally.read(meta.index);
        meta.x_new0 = meta.x_old0 + meta.tally;
        tally_tally.write(meta.index, meta.x_new0);
        meta.tally = meta.x_new0;
    }

    @hidden
    action exponent_store_out() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
    }

    @hidden
    action tally_store_out() {
        meta.x_new0 = meta.tally;
        tally_tally.write(meta.index, meta.x_new0);
        meta.tally = meta.x_new0;
    }

    @hidden
    action sum_store_out() {
        sum_00.write(meta.index, hdr.lanes_0.d00);
        sum_01.write(meta.index, hdr.lanes_0.d01);
        sum_02.write(meta.index, hdr.lanes_0.d02);
        sum_03.write(meta.index, hdr.lanes_0.d03);
        sum_04.write(meta.index, hdr.lanes_0.d04);
        sum_05.write(meta.index, hdr.lanes_0.d05);
        sum_06.write(meta.index, hdr.lanes_0.d06);
        sum_07.write(meta.index, hdr.lanes_0.d07);
    }

    @hidden
    action sum_sum_out() {
        meta.x_old0 = sum_00.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d00;
        sum_00.write(meta.index, meta.x_old0);
        hdr.lanes_0.d00 = meta.x_old0;
        meta.x_old0 = sum_01.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d01;
        sum_01.write(meta.index, meta.x_old0);
        hdr.lanes_0.d01 = meta.x_old0;
        meta.x_old0 = sum_02.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d02;
        sum_02.write(meta.index, meta.x_old0);
        hdr.lanes_0.d02 = meta.x_old0;
        meta.x_old0 = sum_03.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d03;
        sum_03.write(meta.index, meta.x_old0);
        hdr.lanes_0.d03 = meta.x_old0;
        meta.x_old0 = sum_04.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d04;
        sum_04.write(meta.index, meta.x_old0);
        hdr.lanes_0.d04 = meta.x_old0;
        meta.x_old0 = sum_05.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d05;
        sum_05.write(meta.index, meta.x_old0);
        hdr.lanes_0.d05 = meta.x_old0;
        meta.x_old0 = sum_06.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d06;
        sum_06.write(meta.index, meta.x_old0);
        hdr.lanes_0.d06 = meta.x_old0;
        meta.x_old0 = sum_07.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d07;
        sum_07.write(meta.index, meta.x_old0);
        hdr.lanes_0.d07 = meta.x_old0;
    }

    @hidden
    action shares_add() {
        meta.x_old0 = shares_children.read(meta.index);
        meta.x_new0 = meta.x_old0 | meta.share;
        shares_children.write(meta.index, meta.x_new0);
    }

    @hidden
    action tally_add() {
        meta.x_old0 = tally_tally.read(meta.index);
        meta.x_new0 = meta.x_old0 + meta.tally;
        tally_tally.write(meta.index, meta.x_new0);
    }

    @hidden
    action sum_sum() {
        meta.x_old0 = sum_00.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d00;
        sum_00.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_01.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d01;
        sum_01.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_02.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d02;
        sum_02.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_03.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d03;
        sum_03.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_04.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d04;
        sum_04.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_05.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d05;
        sum_05.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_06.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d06;
        sum_06.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_07.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d07;
        sum_07.write(meta.index, meta.x_old0);
    }

    InternetChecksum() ipv4_sum;

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

    @id(0x02000003)
    table transit {
        key = {
            meta.x_transit_destination: exact @id(1) @name("destination");
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
            meta.x_job_kind: ternary @id(2) @name("kind");
            meta.x_job_job: ternary @id(3) @name("job");
            meta.x_job_key: ternary @id(4) @name("key");
            meta.x_job_epoch: ternary @id(5) @name("epoch");
            meta.x_job_slot: ternary @id(6) @name("slot");
            meta.x_job_source: ternary @id(7) @name("source");
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

    @id(0x010000f1)
    action forward(@id(1) PortId_t port) {
        send_to_port(port);
    }

    @id(0x010000f2)
    action unrouted() {
        drop_packet();
    }

    @id(0x020000f1)
    table route {
        key = {
            meta.x_instance: exact @id(1) @name("instance");
            meta.x_port: exact @id(2) @name("port");
        }
        actions = {
            forward;
            unrouted;
        }
        const default_action = unrouted();
        size = 256;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ipv4_sum.clear();
            ipv4_sum.add(hdr.ipv4);
            meta.x_sum = ipv4_sum.get();
        }
        if (hdr.ipv4.isValid() && !(meta.x_sum != 0 && meta.x_sum != 0xffff)) {
            transit.apply();
        }
        if (meta.way != 16w0x0) {
            meta.x_port = meta.way;
            meta.x_send = 1;
            forwarded.count(32w0x0);
        } else {
            meta.port = (bit<16>)(PortIdUint_t)istd.input_port;
            if (hdr.netfold.isValid()) {
                if (meta.x_sum != 0 && meta.x_sum != 0xffff) {
                    meta.reason = 8w0x1;
                } else {
                    if ((hdr.netfold.version_kind >> 4) == 8w0x1) {
                        if ((hdr.lanes_0.isValid() && ((hdr.ipv4.total_len == 16w0x58) && (hdr.udp.length == 16w0x44))) || ((!(hdr.lanes_0.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && ((hdr.ipv4.total_len == 16w0x38) && (hdr.udp.length == 16w0x24)))) {
                            if (!((((hdr.netfold.op_class >> 4) == 8w0x0) || ((hdr.netfold.op_class >> 4) == 8w0x1)) || ((hdr.netfold.op_class >> 4) == 8w0x2))) {
                                meta.reason = 8w0x4;
                            }
                        } else {
                            meta.reason = 8w0x2;
                        }
                    } else {
                        meta.reason = 8w0x3;
                    }
                }
            } else {
                meta.reason = 8w0x1;
            }
            if (meta.reason == 8w0x0) {
                job.apply();
                if (meta.reason == 8w0x0) {
                    meta.index = meta.index + (bit<32>)hdr.netfold.slot_set;
                    if (hdr.netfold.count != 16w0x0) {
                        meta.share = meta.bit_mask;
                    }
                    meta.tally = (bit<32>)hdr.netfold.count;
                    if ((hdr.netfold.flags & 8w0x10) == 8w0x10) {
                        meta.tally = meta.tally + 32w0x10000;
                    }
                    if ((hdr.netfold.flags & 8w0x2) == 8w0x2) {
                        meta.tally = meta.tally + 32w0x1000000;
                    }
                    if ((hdr.netfold.flags & 8w0x88) == 8w0x88) {
                        hdr.lanes_0.setValid();
                        hdr.lanes_0.d00 = 0;
                        hdr.lanes_0.d01 = 0;
                        hdr.lanes_0.d02 = 0;
                        hdr.lanes_0.d03 = 0;
                        hdr.lanes_0.d04 = 0;
                        hdr.lanes_0.d05 = 0;
                        hdr.lanes_0.d06 = 0;
                        hdr.lanes_0.d07 = 0;
                        hdr.netfold.flags = hdr.netfold.flags & 8w0x7f;
                        hdr.udp.length = 16w0x44;
                        hdr.ipv4.total_len = 16w0x58;
                    }
                    if (((hdr.netfold.version_kind & 8w0xf) == 8w0x6) || (meta.role == 8w0x2)) {
                        claim_peek_out();
                        version_peek_out();
                    } else {
                        if ((hdr.netfold.version_kind & 8w0xf) == 8w0x3) {
                            meta.x_old0 = claim_seen.read(meta.index);
                            meta.x_old1 = claim_chunk.read(meta.index);
                            meta.x_cond0 = 0;
                            if (hdr.netfold.chunk == meta.x_old1) {
                                meta.x_cond0 = 1;
                            }
                            meta.x_cond1 = 0;
                            if ((meta.x_old0 & hdr.netfold.bitmap) == hdr.netfold.bitmap) {
                                meta.x_cond1 = 1;
                            }
                            meta.x_new0 = meta.x_old0;
                            if ((meta.x_cond0 == 1) && (meta.x_cond1 == 1)) {
                                meta.x_new0 = meta.x_old0 | meta.bit_mask;
                            }
                            claim_seen.write(meta.index, meta.x_new0);
                            meta.seen = 0;
                            if (meta.x_cond0 == 1) {
                                meta.seen = meta.x_old0;
                            }
                            version_peek_out();
                        } else {
                            meta.x_old0 = claim_seen.read(meta.index);
                            meta.x_old1 = claim_chunk.read(meta.index);
                            meta.x_cond0 = 0;
                            if (hdr.netfold.chunk == meta.x_old1) {
                                meta.x_cond0 = 1;
                            }
                            meta.x_cond1 = 0;
                            if (((hdr.netfold.chunk - meta.x_old1) ^ 32w0x80000000) > 32w0x80000000) {
                                meta.x_cond1 = 1;
                            }
                            meta.x_new0 = meta.x_old0;
                            if (meta.x_cond1 == 1) {
                                meta.x_new0 = meta.bit_mask;
                            } else if (meta.x_cond0 == 1) {
                                meta.x_new0 = meta.x_old0 | meta.bit_mask;
                            }
                            meta.x_new1 = meta.x_old1;
                            if (meta.x_cond1 == 1) {
                                meta.x_new1 = hdr.netfold.chunk;
                            }
                            claim_seen.write(meta.index, meta.x_new0);
                            claim_chunk.write(meta.index, meta.x_new1);
                            meta.seen = 0;
                            if (meta.x_cond0 == 1) {
                                meta.seen = meta.x_old0;
                            }
                            meta.x_old0 = version_chunk.read(meta.index);
                            meta.x_cond0 = 0;
                            if (((hdr.netfold.chunk - meta.x_old0) ^ 32w0x80000000) > 32w0x80000000) {
                                meta.x_cond0 = 1;
                            }
                            meta.x_new0 = meta.x_old0;
                            if (meta.x_cond0 == 1) {
                                meta.x_new0 = hdr.netfold.chunk;
                            }
                            version_chunk.write(meta.index, meta.x_new0);
                            meta.stored = meta.x_old0;
                        }
                    }
                    meta.diff = hdr.netfold.chunk - meta.stored;
                    meta.duplicate = meta.seen & meta.bit_mask;
                    meta.missing = meta.others & ~meta.seen;
                    if (meta.controller == 8w0x1) {
                        if (((hdr.netfold.version_kind & 8w0xf) == 8w0x7) && ((meta.diff ^ 32w0x80000000) > 32w0x80000000)) {
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
                        meta.x_port = meta.port;
                        meta.x_send = 1;
                        meta.x_swap48 = hdr.ethernet.dst;
                        hdr.ethernet.dst = hdr.ethernet.src;
                        hdr.ethernet.src = meta.x_swap48;
                        meta.x_swap32 = hdr.ipv4.dst;
                        hdr.ipv4.dst = hdr.ipv4.src;
                        hdr.ipv4.src = meta.x_swap32;
                        meta.x_swap16 = hdr.udp.dst_port;
                        hdr.udp.dst_port = hdr.udp.src_port;
                        hdr.udp.src_port = meta.x_swap16;
                        hdr.ipv4.ttl = 8w0x40;
                        hdr.udp.checksum = 16w0x0;
                    } else {
                        if (meta.role == 8w0x2) {
                            if ((meta.diff == 32w0x0) && (meta.missing == 32w0x0)) {
                                settled_mark_out();
                                if (meta.settled != hdr.netfold.chunk) {
                                    exponent_store();
                                    if (hdr.lanes_0.isValid()) {
                                        sum_store();
                                    }
                                    meta.share = 32w0x0;
                                    if ((hdr.netfold.bitmap & meta.bit_mask) != 32w0x0) {
                                        shares_read_out();
                                    } else {
                                        shares_store_out();
                                    }
                                    tally_store();
                                    hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                    hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                    hdr.ipv4.ttl = 8w0x40;
                                    hdr.udp.checksum = 16w0x0;
                                    meta.answer = 8w0x2;
                                    meta.x_instance = meta.group;
                                    meta.x_send = 1;
                                    answers.count(32w0x0);
                                } else {
                                    meta.reason = 8w0xb;
                                }
                            } else {
                                if (32w0x80000000 > (meta.diff ^ 32w0x80000000)) {
                                    meta.reason = 8w0xa;
                                } else {
                                    meta.reason = 8w0xd;
                                }
                            }
                        } else {
                            if ((hdr.netfold.version_kind & 8w0xf) == 8w0x3) {
                                if (32w0x80000000 > (meta.diff ^ 32w0x80000000)) {
                                    hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                    hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x4;
                                    hdr.lanes_0.setInvalid();
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                    hdr.udp.length = 16w0x24;
                                    hdr.ipv4.total_len = 16w0x38;
                                    meta.reason = 8w0xa;
                                    meta.answer = 8w0x2;
                                    meta.x_port = meta.port;
                                    meta.x_send = 1;
                                    meta.x_swap48 = hdr.ethernet.dst;
                                    hdr.ethernet.dst = hdr.ethernet.src;
                                    hdr.ethernet.src = meta.x_swap48;
                                    meta.x_swap32 = hdr.ipv4.dst;
                                    hdr.ipv4.dst = hdr.ipv4.src;
                                    hdr.ipv4.src = meta.x_swap32;
                                    meta.x_swap16 = hdr.udp.dst_port;
                                    hdr.udp.dst_port = hdr.udp.src_port;
                                    hdr.udp.src_port = meta.x_swap16;
                                    hdr.ipv4.ttl = 8w0x40;
                                    hdr.udp.checksum = 16w0x0;
                                } else {
                                    if (meta.diff == 32w0x0) {
                                        if (meta.missing == 32w0x0) {
                                            settled_read_out();
                                            exponent_read_out();
                                            shares_read_out();
                                            tally_read_out();
                                            hdr.netfold.count = (bit<16>)meta.tally;
                                            if (hdr.lanes_0.isValid()) {
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
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x1;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                meta.answer = 8w0x2;
                                                meta.x_instance = meta.up;
                                                meta.x_send = 1;
                                                answers.count(32w0x3);
                                            } else {
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                                meta.answer = 8w0x2;
                                                meta.x_port = meta.port;
                                                meta.x_send = 1;
                                                meta.x_swap48 = hdr.ethernet.dst;
                                                hdr.ethernet.dst = hdr.ethernet.src;
                                                hdr.ethernet.src = meta.x_swap48;
                                                meta.x_swap32 = hdr.ipv4.dst;
                                                hdr.ipv4.dst = hdr.ipv4.src;
                                                hdr.ipv4.src = meta.x_swap32;
                                                meta.x_swap16 = hdr.udp.dst_port;
                                                hdr.udp.dst_port = hdr.udp.src_port;
                                                hdr.udp.src_port = meta.x_swap16;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                answers.count(32w0x1);
                                            }
                                        } else {
                                            if ((meta.seen & hdr.netfold.bitmap) == hdr.netfold.bitmap) {
                                                exponent_read_out();
                                                meta.share = 32w0x0;
                                                meta.tally = 32w0x10000;
                                                shares_add_out();
                                                tally_add_out();
                                                hdr.netfold.count = (bit<16>)meta.tally;
                                                if (hdr.lanes_0.isValid()) {
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
                                                    hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                    hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x1;
                                                    hdr.ipv4.ttl = 8w0x40;
                                                    hdr.udp.checksum = 16w0x0;
                                                    meta.answer = 8w0x2;
                                                    meta.x_instance = meta.up;
                                                    meta.x_send = 1;
                                                    answers.count(32w0x2);
                                                } else {
                                                    hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                                    if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                                        hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                                    }
                                                    if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                                        hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                                    }
                                                    hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                    hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                                    hdr.ipv4.ttl = 8w0x40;
                                                    hdr.udp.checksum = 16w0x0;
                                                    meta.answer = 8w0x2;
                                                    meta.x_instance = meta.group;
                                                    meta.x_send = 1;
                                                    answers.count(32w0x0);
                                                }
                                            } else {
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x8;
                                                hdr.netfold.bitmap = meta.seen;
                                                hdr.lanes_0.setInvalid();
                                                hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                                hdr.udp.length = 16w0x24;
                                                hdr.ipv4.total_len = 16w0x38;
                                                meta.answer = 8w0x2;
                                                meta.x_port = meta.port;
                                                meta.x_send = 1;
                                                meta.x_swap48 = hdr.ethernet.dst;
                                                hdr.ethernet.dst = hdr.ethernet.src;
                                                hdr.ethernet.src = meta.x_swap48;
                                                meta.x_swap32 = hdr.ipv4.dst;
                                                hdr.ipv4.dst = hdr.ipv4.src;
                                                hdr.ipv4.src = meta.x_swap32;
                                                meta.x_swap16 = hdr.udp.dst_port;
                                                hdr.udp.dst_port = hdr.udp.src_port;
                                                hdr.udp.src_port = meta.x_swap16;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                            }
                                        }
                                    } else {
                                        meta.reason = 8w0xd;
                                    }
                                }
                            } else {
                                if (32w0x80000000 > (meta.diff ^ 32w0x80000000)) {
                                    hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                    hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x4;
                                    hdr.lanes_0.setInvalid();
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                    hdr.udp.length = 16w0x24;
                                    hdr.ipv4.total_len = 16w0x38;
                                    meta.reason = 8w0xa;
                                    meta.answer = 8w0x2;
                                    meta.x_port = meta.port;
                                    meta.x_send = 1;
                                    meta.x_swap48 = hdr.ethernet.dst;
                                    hdr.ethernet.dst = hdr.ethernet.src;
                                    hdr.ethernet.src = meta.x_swap48;
                                    meta.x_swap32 = hdr.ipv4.dst;
                                    hdr.ipv4.dst = hdr.ipv4.src;
                                    hdr.ipv4.src = meta.x_swap32;
                                    meta.x_swap16 = hdr.udp.dst_port;
                                    hdr.udp.dst_port = hdr.udp.src_port;
                                    hdr.udp.src_port = meta.x_swap16;
                                    hdr.ipv4.ttl = 8w0x40;
                                    hdr.udp.checksum = 16w0x0;
                                } else {
                                    if (meta.duplicate != 32w0x0) {
                                        if (meta.missing == 32w0x0) {
                                            settled_read_out();
                                            exponent_read_out();
                                            shares_read_out();
                                            tally_read_out();
                                            hdr.netfold.count = (bit<16>)meta.tally;
                                            if (hdr.lanes_0.isValid()) {
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
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x1;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                meta.answer = 8w0x2;
                                                meta.x_instance = meta.up;
                                                meta.x_send = 1;
                                                answers.count(32w0x3);
                                            } else {
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                                meta.answer = 8w0x2;
                                                meta.x_port = meta.port;
                                                meta.x_send = 1;
                                                meta.x_swap48 = hdr.ethernet.dst;
                                                hdr.ethernet.dst = hdr.ethernet.src;
                                                hdr.ethernet.src = meta.x_swap48;
                                                meta.x_swap32 = hdr.ipv4.dst;
                                                hdr.ipv4.dst = hdr.ipv4.src;
                                                hdr.ipv4.src = meta.x_swap32;
                                                meta.x_swap16 = hdr.udp.dst_port;
                                                hdr.udp.dst_port = hdr.udp.src_port;
                                                hdr.udp.src_port = meta.x_swap16;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                answers.count(32w0x1);
                                            }
                                        } else {
                                            meta.reason = 8w0xb;
                                            if ((hdr.netfold.flags & 8w0x4) == 8w0x4) {
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x8;
                                                hdr.netfold.bitmap = meta.seen;
                                                hdr.lanes_0.setInvalid();
                                                hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                                hdr.udp.length = 16w0x24;
                                                hdr.ipv4.total_len = 16w0x38;
                                                meta.answer = 8w0x2;
                                                meta.x_port = meta.port;
                                                meta.x_send = 1;
                                                meta.x_swap48 = hdr.ethernet.dst;
                                                hdr.ethernet.dst = hdr.ethernet.src;
                                                hdr.ethernet.src = meta.x_swap48;
                                                meta.x_swap32 = hdr.ipv4.dst;
                                                hdr.ipv4.dst = hdr.ipv4.src;
                                                hdr.ipv4.src = meta.x_swap32;
                                                meta.x_swap16 = hdr.udp.dst_port;
                                                hdr.udp.dst_port = hdr.udp.src_port;
                                                hdr.udp.src_port = meta.x_swap16;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                            }
                                        }
                                    } else {
                                        if (meta.missing == 32w0x0) {
                                            if (meta.diff != 32w0x0) {
                                                exponent_store_out();
                                                shares_store_out();
                                                tally_store_out();
                                                hdr.netfold.count = (bit<16>)meta.tally;
                                                if (hdr.lanes_0.isValid() && (meta.share != 32w0x0)) {
                                                    sum_store_out();
                                                } else {
                                                    sum_clear();
                                                }
                                            } else {
                                                meta.x_old0_8 = exponent_exponent.read(meta.index);
                                                meta.x_new0_8 = meta.x_old0_8;
                                                if (hdr.netfold.exp_next > meta.x_old0_8) {
                                                    meta.x_new0_8 = hdr.netfold.exp_next;
                                                }
                                                exponent_exponent.write(meta.index, meta.x_new0_8);
                                                hdr.netfold.exp_next = meta.x_new0_8;
                                                shares_add_out();
                                                tally_add_out();
                                                hdr.netfold.count = (bit<16>)meta.tally;
                                                if (hdr.lanes_0.isValid()) {
                                                    if (meta.share != 32w0x0) {
                                                        if ((hdr.netfold.op_class >> 4) == 8w0x0) {
                                                            sum_sum_out();
                                                        } else {
                                                            if ((hdr.netfold.op_class >> 4) == 8w0x1) {
                                                                meta.x_old0 = sum_00.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d00) {
                                                                    meta.x_old0 = hdr.lanes_0.d00;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_00.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d00 = meta.x_old0;
                                                                meta.x_old0 = sum_01.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d01) {
                                                                    meta.x_old0 = hdr.lanes_0.d01;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_01.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d01 = meta.x_old0;
                                                                meta.x_old0 = sum_02.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d02) {
                                                                    meta.x_old0 = hdr.lanes_0.d02;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_02.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d02 = meta.x_old0;
                                                                meta.x_old0 = sum_03.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d03) {
                                                                    meta.x_old0 = hdr.lanes_0.d03;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_03.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d03 = meta.x_old0;
                                                                meta.x_old0 = sum_04.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d04) {
                                                                    meta.x_old0 = hdr.lanes_0.d04;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_04.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d04 = meta.x_old0;
                                                                meta.x_old0 = sum_05.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d05) {
                                                                    meta.x_old0 = hdr.lanes_0.d05;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_05.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d05 = meta.x_old0;
                                                                meta.x_old0 = sum_06.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d06) {
                                                                    meta.x_old0 = hdr.lanes_0.d06;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_06.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d06 = meta.x_old0;
                                                                meta.x_old0 = sum_07.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d07) {
                                                                    meta.x_old0 = hdr.lanes_0.d07;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_07.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d07 = meta.x_old0;
                                                            } else {
                                                                meta.x_old0 = sum_00.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d00) {
                                                                    meta.x_old0 = hdr.lanes_0.d00;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_00.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d00 = meta.x_old0;
                                                                meta.x_old0 = sum_01.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d01) {
                                                                    meta.x_old0 = hdr.lanes_0.d01;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_01.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d01 = meta.x_old0;
                                                                meta.x_old0 = sum_02.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d02) {
                                                                    meta.x_old0 = hdr.lanes_0.d02;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_02.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d02 = meta.x_old0;
                                                                meta.x_old0 = sum_03.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d03) {
                                                                    meta.x_old0 = hdr.lanes_0.d03;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_03.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d03 = meta.x_old0;
                                                                meta.x_old0 = sum_04.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d04) {
                                                                    meta.x_old0 = hdr.lanes_0.d04;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_04.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d04 = meta.x_old0;
                                                                meta.x_old0 = sum_05.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d05) {
                                                                    meta.x_old0 = hdr.lanes_0.d05;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_05.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d05 = meta.x_old0;
                                                                meta.x_old0 = sum_06.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d06) {
                                                                    meta.x_old0 = hdr.lanes_0.d06;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_06.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d06 = meta.x_old0;
                                                                meta.x_old0 = sum_07.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d07) {
                                                                    meta.x_old0 = hdr.lanes_0.d07;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_07.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d07 = meta.x_old0;
                                                            }
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
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x1;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                meta.answer = 8w0x2;
                                                meta.x_instance = meta.up;
                                                meta.x_send = 1;
                                                answers.count(32w0x2);
                                            } else {
                                                hdr.netfold.flags = hdr.netfold.flags & 8w0xe2;
                                                if ((meta.tally & 32w0xff0000) != 32w0x0) {
                                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x10;
                                                }
                                                if ((meta.tally & 32w0xff000000) != 32w0x0) {
                                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x2;
                                                }
                                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                                hdr.ipv4.ttl = 8w0x40;
                                                hdr.udp.checksum = 16w0x0;
                                                meta.answer = 8w0x2;
                                                meta.x_instance = meta.group;
                                                meta.x_send = 1;
                                                answers.count(32w0x0);
                                            }
                                        } else {
                                            if (meta.diff != 32w0x0) {
                                                exponent_store();
                                                shares_store();
                                                tally_store();
                                                if (hdr.lanes_0.isValid() && (meta.share != 32w0x0)) {
                                                    sum_store();
                                                } else {
                                                    sum_clear();
                                                }
                                            } else {
                                                meta.x_old0_8 = exponent_exponent.read(meta.index);
                                                meta.x_new0_8 = meta.x_old0_8;
                                                if (hdr.netfold.exp_next > meta.x_old0_8) {
                                                    meta.x_new0_8 = hdr.netfold.exp_next;
                                                }
                                                exponent_exponent.write(meta.index, meta.x_new0_8);
                                                shares_add();
                                                tally_add();
                                                if (hdr.lanes_0.isValid()) {
                                                    if (meta.share != 32w0x0) {
                                                        if ((hdr.netfold.op_class >> 4) == 8w0x0) {
                                                            sum_sum();
                                                        } else {
                                                            if ((hdr.netfold.op_class >> 4) == 8w0x1) {
                                                                meta.x_old0 = sum_00.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d00) {
                                                                    meta.x_old0 = hdr.lanes_0.d00;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_00.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_01.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d01) {
                                                                    meta.x_old0 = hdr.lanes_0.d01;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_01.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_02.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d02) {
                                                                    meta.x_old0 = hdr.lanes_0.d02;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_02.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_03.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d03) {
                                                                    meta.x_old0 = hdr.lanes_0.d03;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_03.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_04.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d04) {
                                                                    meta.x_old0 = hdr.lanes_0.d04;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_04.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_05.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d05) {
                                                                    meta.x_old0 = hdr.lanes_0.d05;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_05.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_06.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d06) {
                                                                    meta.x_old0 = hdr.lanes_0.d06;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_06.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_07.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                                if (meta.x_old0 > hdr.lanes_0.d07) {
                                                                    meta.x_old0 = hdr.lanes_0.d07;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_07.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                            } else {
                                                                meta.x_old0 = sum_00.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d00) {
                                                                    meta.x_old0 = hdr.lanes_0.d00;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_00.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d00 = hdr.lanes_0.d00 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_01.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d01) {
                                                                    meta.x_old0 = hdr.lanes_0.d01;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_01.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d01 = hdr.lanes_0.d01 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_02.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d02) {
                                                                    meta.x_old0 = hdr.lanes_0.d02;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_02.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d02 = hdr.lanes_0.d02 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_03.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d03) {
                                                                    meta.x_old0 = hdr.lanes_0.d03;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_03.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d03 = hdr.lanes_0.d03 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_04.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d04) {
                                                                    meta.x_old0 = hdr.lanes_0.d04;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_04.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d04 = hdr.lanes_0.d04 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_05.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d05) {
                                                                    meta.x_old0 = hdr.lanes_0.d05;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_05.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d05 = hdr.lanes_0.d05 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_06.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d06) {
                                                                    meta.x_old0 = hdr.lanes_0.d06;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_06.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d06 = hdr.lanes_0.d06 ^ 32w0x80000000;
                                                                meta.x_old0 = sum_07.read(meta.index);
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                                if (meta.x_old0 < hdr.lanes_0.d07) {
                                                                    meta.x_old0 = hdr.lanes_0.d07;
                                                                }
                                                                meta.x_old0 = meta.x_old0 ^ 32w0x80000000;
                                                                sum_07.write(meta.index, meta.x_old0);
                                                                hdr.lanes_0.d07 = hdr.lanes_0.d07 ^ 32w0x80000000;
                                                            }
                                                        }
                                                    }
                                                }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            if (meta.answer == 8w0x1) {
                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x5;
                hdr.netfold.reason = meta.reason;
                hdr.lanes_0.setInvalid();
                hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                hdr.udp.length = 16w0x24;
                hdr.ipv4.total_len = 16w0x38;
                meta.answer = 8w0x2;
                meta.x_port = meta.port;
                meta.x_send = 1;
                meta.x_swap48 = hdr.ethernet.dst;
                hdr.ethernet.dst = hdr.ethernet.src;
                hdr.ethernet.src = meta.x_swap48;
                meta.x_swap32 = hdr.ipv4.dst;
                hdr.ipv4.dst = hdr.ipv4.src;
                hdr.ipv4.src = meta.x_swap32;
                meta.x_swap16 = hdr.udp.dst_port;
                hdr.udp.dst_port = hdr.udp.src_port;
                hdr.udp.src_port = meta.x_swap16;
                hdr.ipv4.ttl = 8w0x40;
                hdr.udp.checksum = 16w0x0;
            } else {
                if (meta.answer == 8w0x0) {
                    drop_packet();
                }
            }
            packets.count((bit<32>)meta.reason);
        }
        if (hdr.netfold.isValid()) {
            if (((hdr.netfold.version_kind & 8w0xf) == 8w0x1) || ((hdr.netfold.version_kind & 8w0xf) == 8w0x2)) {
                if ((hdr.netfold.op_class & 8w0xf) > 8w0xb) {
                    ostd.class_of_service = (ClassOfService_t)8w0x3;
                } else {
                    if ((hdr.netfold.op_class & 8w0xf) > 8w0x7) {
                        ostd.class_of_service = (ClassOfService_t)8w0x2;
                    } else {
                        if ((hdr.netfold.op_class & 8w0xf) > 8w0x3) {
                            ostd.class_of_service = (ClassOfService_t)8w0x1;
                        } else {
                            ostd.class_of_service = (ClassOfService_t)8w0x0;
                        }
                    }
                }
            } else {
                ostd.class_of_service = (ClassOfService_t)8w0x3;
            }
        }
        // What a switch does to each copy.
        if (meta.x_instance != 0) {
            meta.port = meta.x_instance;
            if (meta.port != 16w0x0) {
                child.apply();
            }
        }
        if (meta.x_send == 1) {
            route.apply();
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = 0;
            ipv4_sum.clear();
            ipv4_sum.add(hdr.ipv4);
            meta.x_sum = ipv4_sum.get();
            hdr.ipv4.checksum = meta.x_sum;
        }
    }
}

control MainDeparserImpl(
    packet_out pkt, in headers_t hdr, in metadata_t meta,
    in pna_main_output_metadata_t ostd) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.netfold);
        pkt.emit(hdr.lanes_0);
    }
}

PNA_NIC(MainParserImpl(), PreControlImpl(), MainControlImpl(), MainDeparserImpl()) main;
