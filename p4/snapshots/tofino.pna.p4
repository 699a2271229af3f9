// netfold_all_reduce: in-network all-reduce: 64 word lanes of 32 bits, 4096 slots x 2 sets, up to 32 children.
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
    bit<32> index;
    bit<32> seen;
    bit<32> stored;
    bit<32> diff;
    bit<32> duplicate;
    bit<32> missing;
    bit<8> controller;
    bit<8> x_job_kind;
    bit<16> x_job_job;
    bit<32> x_job_key;
    bit<32> x_job_epoch;
    bit<16> x_job_slot;
    bit<32> x_job_source;
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
        meta.x_instance = 0;
        meta.x_port = 0;
        meta.x_send = 0;
        meta.port = (bit<16>)(PortIdUint_t)istd.input_port;
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        meta.x_job_source = hdr.ipv4.src;
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
        pkt.extract(hdr.lanes_1);
        transition accept;
    }
    state bare {
        transition accept;
    }
}

control MainControlImpl(
    inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
    inout pna_main_output_metadata_t ostd) {
    @id(0x16000001) Register<bit<32>, bit<32>>(8192) claim_seen;
    @id(0x16000002) Register<bit<32>, bit<32>>(8192) claim_chunk;
    @id(0x16000003) Register<bit<32>, bit<32>>(8192) version_chunk;
    @id(0x16000004) Register<bit<8>, bit<32>>(8192) exponent_exponent;
    @id(0x16001000) Register<bit<32>, bit<32>>(8192) sum_00;
    @id(0x16001001) Register<bit<32>, bit<32>>(8192) sum_01;
    @id(0x16001002) Register<bit<32>, bit<32>>(8192) sum_02;
    @id(0x16001003) Register<bit<32>, bit<32>>(8192) sum_03;
    @id(0x16001004) Register<bit<32>, bit<32>>(8192) sum_04;
    @id(0x16001005) Register<bit<32>, bit<32>>(8192) sum_05;
    @id(0x16001006) Register<bit<32>, bit<32>>(8192) sum_06;
    @id(0x16001007) Register<bit<32>, bit<32>>(8192) sum_07;
    @id(0x16001008) Register<bit<32>, bit<32>>(8192) sum_08;
    @id(0x16001009) Register<bit<32>, bit<32>>(8192) sum_09;
    @id(0x1600100a) Register<bit<32>, bit<32>>(8192) sum_10;
    @id(0x1600100b) Register<bit<32>, bit<32>>(8192) sum_11;
    @id(0x1600100c) Register<bit<32>, bit<32>>(8192) sum_12;
    @id(0x1600100d) Register<bit<32>, bit<32>>(8192) sum_13;
    @id(0x1600100e) Register<bit<32>, bit<32>>(8192) sum_14;
    @id(0x1600100f) Register<bit<32>, bit<32>>(8192) sum_15;
    @id(0x16001010) Register<bit<32>, bit<32>>(8192) sum_16;
    @id(0x16001011) Register<bit<32>, bit<32>>(8192) sum_17;
    @id(0x16001012) Register<bit<32>, bit<32>>(8192) sum_18;
    @id(0x16001013) Register<bit<32>, bit<32>>(8192) sum_19;
    @id(0x16001014) Register<bit<32>, bit<32>>(8192) sum_20;
    @id(0x16001015) Register<bit<32>, bit<32>>(8192) sum_21;
    @id(0x16001016) Register<bit<32>, bit<32>>(8192) sum_22;
    @id(0x16001017) Register<bit<32>, bit<32>>(8192) sum_23;
    @id(0x16001018) Register<bit<32>, bit<32>>(8192) sum_24;
    @id(0x16001019) Register<bit<32>, bit<32>>(8192) sum_25;
    @id(0x1600101a) Register<bit<32>, bit<32>>(8192) sum_26;
    @id(0x1600101b) Register<bit<32>, bit<32>>(8192) sum_27;
    @id(0x1600101c) Register<bit<32>, bit<32>>(8192) sum_28;
    @id(0x1600101d) Register<bit<32>, bit<32>>(8192) sum_29;
    @id(0x1600101e) Register<bit<32>, bit<32>>(8192) sum_30;
    @id(0x1600101f) Register<bit<32>, bit<32>>(8192) sum_31;
    @id(0x16001020) Register<bit<32>, bit<32>>(8192) sum_32;
    @id(0x16001021) Register<bit<32>, bit<32>>(8192) sum_33;
    @id(0x16001022) Register<bit<32>, bit<32>>(8192) sum_34;
    @id(0x16001023) Register<bit<32>, bit<32>>(8192) sum_35;
    @id(0x16001024) Register<bit<32>, bit<32>>(8192) sum_36;
    @id(0x16001025) Register<bit<32>, bit<32>>(8192) sum_37;
    @id(0x16001026) Register<bit<32>, bit<32>>(8192) sum_38;
    @id(0x16001027) Register<bit<32>, bit<32>>(8192) sum_39;
    @id(0x16001028) Register<bit<32>, bit<32>>(8192) sum_40;
    @id(0x16001029) Register<bit<32>, bit<32>>(8192) sum_41;
    @id(0x1600102a) Register<bit<32>, bit<32>>(8192) sum_42;
    @id(0x1600102b) Register<bit<32>, bit<32>>(8192) sum_43;
    @id(0x1600102c) Register<bit<32>, bit<32>>(8192) sum_44;
    @id(0x1600102d) Register<bit<32>, bit<32>>(8192) sum_45;
    @id(0x1600102e) Register<bit<32>, bit<32>>(8192) sum_46;
    @id(0x1600102f) Register<bit<32>, bit<32>>(8192) sum_47;
    @id(0x16001030) Register<bit<32>, bit<32>>(8192) sum_48;
    @id(0x16001031) Register<bit<32>, bit<32>>(8192) sum_49;
    @id(0x16001032) Register<bit<32>, bit<32>>(8192) sum_50;
    @id(0x16001033) Register<bit<32>, bit<32>>(8192) sum_51;
    @id(0x16001034) Register<bit<32>, bit<32>>(8192) sum_52;
    @id(0x16001035) Register<bit<32>, bit<32>>(8192) sum_53;
    @id(0x16001036) Register<bit<32>, bit<32>>(8192) sum_54;
    @id(0x16001037) Register<bit<32>, bit<32>>(8192) sum_55;
    @id(0x16001038) Register<bit<32>, bit<32>>(8192) sum_56;
    @id(0x16001039) Register<bit<32>, bit<32>>(8192) sum_57;
    @id(0x1600103a) Register<bit<32>, bit<32>>(8192) sum_58;
    @id(0x1600103b) Register<bit<32>, bit<32>>(8192) sum_59;
    @id(0x1600103c) Register<bit<32>, bit<32>>(8192) sum_60;
    @id(0x1600103d) Register<bit<32>, bit<32>>(8192) sum_61;
    @id(0x1600103e) Register<bit<32>, bit<32>>(8192) sum_62;
    @id(0x1600103f) Register<bit<32>, bit<32>>(8192) sum_63;
    @id(0x12000001) Counter<bit<32>, bit<32>>(15, PNA_CounterType_t.PACKETS) packets;
    @id(0x12000002) Counter<bit<32>, bit<32>>(2, PNA_CounterType_t.PACKETS) answers;

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
        sum_16.write(meta.index, 32w0x0);
        sum_17.write(meta.index, 32w0x0);
        sum_18.write(meta.index, 32w0x0);
        sum_19.write(meta.index, 32w0x0);
        sum_20.write(meta.index, 32w0x0);
        sum_21.write(meta.index, 32w0x0);
        sum_22.write(meta.index, 32w0x0);
        sum_23.write(meta.index, 32w0x0);
        sum_24.write(meta.index, 32w0x0);
        sum_25.write(meta.index, 32w0x0);
        sum_26.write(meta.index, 32w0x0);
        sum_27.write(meta.index, 32w0x0);
        sum_28.write(meta.index, 32w0x0);
        sum_29.write(meta.index, 32w0x0);
        sum_30.write(meta.index, 32w0x0);
        sum_31.write(meta.index, 32w0x0);
        sum_32.write(meta.index, 32w0x0);
        sum_33.write(meta.index, 32w0x0);
        sum_34.write(meta.index, 32w0x0);
        sum_35.write(meta.index, 32w0x0);
        sum_36.write(meta.index, 32w0x0);
        sum_37.write(meta.index, 32w0x0);
        sum_38.write(meta.index, 32w0x0);
        sum_39.write(meta.index, 32w0x0);
        sum_40.write(meta.index, 32w0x0);
        sum_41.write(meta.index, 32w0x0);
        sum_42.write(meta.index, 32w0x0);
        sum_43.write(meta.index, 32w0x0);
        sum_44.write(meta.index, 32w0x0);
        sum_45.write(meta.index, 32w0x0);
        sum_46.write(meta.index, 32w0x0);
        sum_47.write(meta.index, 32w0x0);
        sum_48.write(meta.index, 32w0x0);
        sum_49.write(meta.index, 32w0x0);
        sum_50.write(meta.index, 32w0x0);
        sum_51.write(meta.index, 32w0x0);
        sum_52.write(meta.index, 32w0x0);
        sum_53.write(meta.index, 32w0x0);
        sum_54.write(meta.index, 32w0x0);
        sum_55.write(meta.index, 32w0x0);
        sum_56.write(meta.index, 32w0x0);
        sum_57.write(meta.index, 32w0x0);
        sum_58.write(meta.index, 32w0x0);
        sum_59.write(meta.index, 32w0x0);
        sum_60.write(meta.index, 32w0x0);
        sum_61.write(meta.index, 32w0x0);
        sum_62.write(meta.index, 32w0x0);
        sum_63.write(meta.index, 32w0x0);
    }

    @hidden
    action exponent_read_out() {
        meta.x_old0_8 = exponent_exponent.read(meta.index);
        hdr.netfold.exp_next = meta.x_old0_8;
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
        meta.x_old0 = sum_08.read(meta.index);
        hdr.lanes_0.d08 = meta.x_old0;
        meta.x_old0 = sum_09.read(meta.index);
        hdr.lanes_0.d09 = meta.x_old0;
        meta.x_old0 = sum_10.read(meta.index);
        hdr.lanes_0.d10 = meta.x_old0;
        meta.x_old0 = sum_11.read(meta.index);
        hdr.lanes_0.d11 = meta.x_old0;
        meta.x_old0 = sum_12.read(meta.index);
        hdr.lanes_0.d12 = meta.x_old0;
        meta.x_old0 = sum_13.read(meta.index);
        hdr.lanes_0.d13 = meta.x_old0;
        meta.x_old0 = sum_14.read(meta.index);
        hdr.lanes_0.d14 = meta.x_old0;
        meta.x_old0 = sum_15.read(meta.index);
        hdr.lanes_0.d15 = meta.x_old0;
        meta.x_old0 = sum_16.read(meta.index);
        hdr.lanes_0.d16 = meta.x_old0;
        meta.x_old0 = sum_17.read(meta.index);
        hdr.lanes_0.d17 = meta.x_old0;
        meta.x_old0 = sum_18.read(meta.index);
        hdr.lanes_0.d18 = meta.x_old0;
        meta.x_old0 = sum_19.read(meta.index);
        hdr.lanes_0.d19 = meta.x_old0;
        meta.x_old0 = sum_20.read(meta.index);
        hdr.lanes_0.d20 = meta.x_old0;
        meta.x_old0 = sum_21.read(meta.index);
        hdr.lanes_0.d21 = meta.x_old0;
        meta.x_old0 = sum_22.read(meta.index);
        hdr.lanes_0.d22 = meta.x_old0;
        meta.x_old0 = sum_23.read(meta.index);
        hdr.lanes_0.d23 = meta.x_old0;
        meta.x_old0 = sum_24.read(meta.index);
        hdr.lanes_0.d24 = meta.x_old0;
        meta.x_old0 = sum_25.read(meta.index);
        hdr.lanes_0.d25 = meta.x_old0;
        meta.x_old0 = sum_26.read(meta.index);
        hdr.lanes_0.d26 = meta.x_old0;
        meta.x_old0 = sum_27.read(meta.index);
        hdr.lanes_0.d27 = meta.x_old0;
        meta.x_old0 = sum_28.read(meta.index);
        hdr.lanes_0.d28 = meta.x_old0;
        meta.x_old0 = sum_29.read(meta.index);
        hdr.lanes_0.d29 = meta.x_old0;
        meta.x_old0 = sum_30.read(meta.index);
        hdr.lanes_0.d30 = meta.x_old0;
        meta.x_old0 = sum_31.read(meta.index);
        hdr.lanes_0.d31 = meta.x_old0;
        meta.x_old0 = sum_32.read(meta.index);
        hdr.lanes_1.d32 = meta.x_old0;
        meta.x_old0 = sum_33.read(meta.index);
        hdr.lanes_1.d33 = meta.x_old0;
        meta.x_old0 = sum_34.read(meta.index);
        hdr.lanes_1.d34 = meta.x_old0;
        meta.x_old0 = sum_35.read(meta.index);
        hdr.lanes_1.d35 = meta.x_old0;
        meta.x_old0 = sum_36.read(meta.index);
        hdr.lanes_1.d36 = meta.x_old0;
        meta.x_old0 = sum_37.read(meta.index);
        hdr.lanes_1.d37 = meta.x_old0;
        meta.x_old0 = sum_38.read(meta.index);
        hdr.lanes_1.d38 = meta.x_old0;
        meta.x_old0 = sum_39.read(meta.index);
        hdr.lanes_1.d39 = meta.x_old0;
        meta.x_old0 = sum_40.read(meta.index);
        hdr.lanes_1.d40 = meta.x_old0;
        meta.x_old0 = sum_41.read(meta.index);
        hdr.lanes_1.d41 = meta.x_old0;
        meta.x_old0 = sum_42.read(meta.index);
        hdr.lanes_1.d42 = meta.x_old0;
        meta.x_old0 = sum_43.read(meta.index);
        hdr.lanes_1.d43 = meta.x_old0;
        meta.x_old0 = sum_44.read(meta.index);
        hdr.lanes_1.d44 = meta.x_old0;
        meta.x_old0 = sum_45.read(meta.index);
        hdr.lanes_1.d45 = meta.x_old0;
        meta.x_old0 = sum_46.read(meta.index);
        hdr.lanes_1.d46 = meta.x_old0;
        meta.x_old0 = sum_47.read(meta.index);
        hdr.lanes_1.d47 = meta.x_old0;
        meta.x_old0 = sum_48.read(meta.index);
        hdr.lanes_1.d48 = meta.x_old0;
        meta.x_old0 = sum_49.read(meta.index);
        hdr.lanes_1.d49 = meta.x_old0;
        meta.x_old0 = sum_50.read(meta.index);
        hdr.lanes_1.d50 = meta.x_old0;
        meta.x_old0 = sum_51.read(meta.index);
        hdr.lanes_1.d51 = meta.x_old0;
        meta.x_old0 = sum_52.read(meta.index);
        hdr.lanes_1.d52 = meta.x_old0;
        meta.x_old0 = sum_53.read(meta.index);
        hdr.lanes_1.d53 = meta.x_old0;
        meta.x_old0 = sum_54.read(meta.index);
        hdr.lanes_1.d54 = meta.x_old0;
        meta.x_old0 = sum_55.read(meta.index);
        hdr.lanes_1.d55 = meta.x_old0;
        meta.x_old0 = sum_56.read(meta.index);
        hdr.lanes_1.d56 = meta.x_old0;
        meta.x_old0 = sum_57.read(meta.index);
        hdr.lanes_1.d57 = meta.x_old0;
        meta.x_old0 = sum_58.read(meta.index);
        hdr.lanes_1.d58 = meta.x_old0;
        meta.x_old0 = sum_59.read(meta.index);
        hdr.lanes_1.d59 = meta.x_old0;
        meta.x_old0 = sum_60.read(meta.index);
        hdr.lanes_1.d60 = meta.x_old0;
        meta.x_old0 = sum_61.read(meta.index);
        hdr.lanes_1.d61 = meta.x_old0;
        meta.x_old0 = sum_62.read(meta.index);
        hdr.lanes_1.d62 = meta.x_old0;
        meta.x_old0 = sum_63.read(meta.index);
        hdr.lanes_1.d63 = meta.x_old0;
    }

    @hidden
    action exponent_store_out() {
        exponent_exponent.write(meta.index, hdr.netfold.exp_next);
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
        sum_08.write(meta.index, hdr.lanes_0.d08);
        sum_09.write(meta.index, hdr.lanes_0.d09);
        sum_10.write(meta.index, hdr.lanes_0.d10);
        sum_11.write(meta.index, hdr.lanes_0.d11);
        sum_12.write(meta.index, hdr.lanes_0.d12);
        sum_13.write(meta.index, hdr.lanes_0.d13);
        sum_14.write(meta.index, hdr.lanes_0.d14);
        sum_15.write(meta.index, hdr.lanes_0.d15);
        sum_16.write(meta.index, hdr.lanes_0.d16);
        sum_17.write(meta.index, hdr.lanes_0.d17);
        sum_18.write(meta.index, hdr.lanes_0.d18);
        sum_19.write(meta.index, hdr.lanes_0.d19);
        sum_20.write(meta.index, hdr.lanes_0.d20);
        sum_21.write(meta.index, hdr.lanes_0.d21);
        sum_22.write(meta.index, hdr.lanes_0.d22);
        sum_23.write(meta.index, hdr.lanes_0.d23);
        sum_24.write(meta.index, hdr.lanes_0.d24);
        sum_25.write(meta.index, hdr.lanes_0.d25);
        sum_26.write(meta.index, hdr.lanes_0.d26);
        sum_27.write(meta.index, hdr.lanes_0.d27);
        sum_28.write(meta.index, hdr.lanes_0.d28);
        sum_29.write(meta.index, hdr.lanes_0.d29);
        sum_30.write(meta.index, hdr.lanes_0.d30);
        sum_31.write(meta.index, hdr.lanes_0.d31);
        sum_32.write(meta.index, hdr.lanes_1.d32);
        sum_33.write(meta.index, hdr.lanes_1.d33);
        sum_34.write(meta.index, hdr.lanes_1.d34);
        sum_35.write(meta.index, hdr.lanes_1.d35);
        sum_36.write(meta.index, hdr.lanes_1.d36);
        sum_37.write(meta.index, hdr.lanes_1.d37);
        sum_38.write(meta.index, hdr.lanes_1.d38);
        sum_39.write(meta.index, hdr.lanes_1.d39);
        sum_40.write(meta.index, hdr.lanes_1.d40);
        sum_41.write(meta.index, hdr.lanes_1.d41);
        sum_42.write(meta.index, hdr.lanes_1.d42);
        sum_43.write(meta.index, hdr.lanes_1.d43);
        sum_44.write(meta.index, hdr.lanes_1.d44);
        sum_45.write(meta.index, hdr.lanes_1.d45);
        sum_46.write(meta.index, hdr.lanes_1.d46);
        sum_47.write(meta.index, hdr.lanes_1.d47);
        sum_48.write(meta.index, hdr.lanes_1.d48);
        sum_49.write(meta.index, hdr.lanes_1.d49);
        sum_50.write(meta.index, hdr.lanes_1.d50);
        sum_51.write(meta.index, hdr.lanes_1.d51);
        sum_52.write(meta.index, hdr.lanes_1.d52);
        sum_53.write(meta.index, hdr.lanes_1.d53);
        sum_54.write(meta.index, hdr.lanes_1.d54);
        sum_55.write(meta.index, hdr.lanes_1.d55);
        sum_56.write(meta.index, hdr.lanes_1.d56);
        sum_57.write(meta.index, hdr.lanes_1.d57);
        sum_58.write(meta.index, hdr.lanes_1.d58);
        sum_59.write(meta.index, hdr.lanes_1.d59);
        sum_60.write(meta.index, hdr.lanes_1.d60);
        sum_61.write(meta.index, hdr.lanes_1.d61);
        sum_62.write(meta.index, hdr.lanes_1.d62);
        sum_63.write(meta.index, hdr.lanes_1.d63);
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
        meta.x_old0 = sum_08.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d08;
        sum_08.write(meta.index, meta.x_old0);
        hdr.lanes_0.d08 = meta.x_old0;
        meta.x_old0 = sum_09.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d09;
        sum_09.write(meta.index, meta.x_old0);
        hdr.lanes_0.d09 = meta.x_old0;
        meta.x_old0 = sum_10.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d10;
        sum_10.write(meta.index, meta.x_old0);
        hdr.lanes_0.d10 = meta.x_old0;
        meta.x_old0 = sum_11.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d11;
        sum_11.write(meta.index, meta.x_old0);
        hdr.lanes_0.d11 = meta.x_old0;
        meta.x_old0 = sum_12.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d12;
        sum_12.write(meta.index, meta.x_old0);
        hdr.lanes_0.d12 = meta.x_old0;
        meta.x_old0 = sum_13.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d13;
        sum_13.write(meta.index, meta.x_old0);
        hdr.lanes_0.d13 = meta.x_old0;
        meta.x_old0 = sum_14.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d14;
        sum_14.write(meta.index, meta.x_old0);
        hdr.lanes_0.d14 = meta.x_old0;
        meta.x_old0 = sum_15.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d15;
        sum_15.write(meta.index, meta.x_old0);
        hdr.lanes_0.d15 = meta.x_old0;
        meta.x_old0 = sum_16.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d16;
        sum_16.write(meta.index, meta.x_old0);
        hdr.lanes_0.d16 = meta.x_old0;
        meta.x_old0 = sum_17.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d17;
        sum_17.write(meta.index, meta.x_old0);
        hdr.lanes_0.d17 = meta.x_old0;
        meta.x_old0 = sum_18.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d18;
        sum_18.write(meta.index, meta.x_old0);
        hdr.lanes_0.d18 = meta.x_old0;
        meta.x_old0 = sum_19.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d19;
        sum_19.write(meta.index, meta.x_old0);
        hdr.lanes_0.d19 = meta.x_old0;
        meta.x_old0 = sum_20.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d20;
        sum_20.write(meta.index, meta.x_old0);
        hdr.lanes_0.d20 = meta.x_old0;
        meta.x_old0 = sum_21.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d21;
        sum_21.write(meta.index, meta.x_old0);
        hdr.lanes_0.d21 = meta.x_old0;
        meta.x_old0 = sum_22.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d22;
        sum_22.write(meta.index, meta.x_old0);
        hdr.lanes_0.d22 = meta.x_old0;
        meta.x_old0 = sum_23.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d23;
        sum_23.write(meta.index, meta.x_old0);
        hdr.lanes_0.d23 = meta.x_old0;
        meta.x_old0 = sum_24.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d24;
        sum_24.write(meta.index, meta.x_old0);
        hdr.lanes_0.d24 = meta.x_old0;
        meta.x_old0 = sum_25.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d25;
        sum_25.write(meta.index, meta.x_old0);
        hdr.lanes_0.d25 = meta.x_old0;
        meta.x_old0 = sum_26.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d26;
        sum_26.write(meta.index, meta.x_old0);
        hdr.lanes_0.d26 = meta.x_old0;
        meta.x_old0 = sum_27.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d27;
        sum_27.write(meta.index, meta.x_old0);
        hdr.lanes_0.d27 = meta.x_old0;
        meta.x_old0 = sum_28.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d28;
        sum_28.write(meta.index, meta.x_old0);
        hdr.lanes_0.d28 = meta.x_old0;
        meta.x_old0 = sum_29.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d29;
        sum_29.write(meta.index, meta.x_old0);
        hdr.lanes_0.d29 = meta.x_old0;
        meta.x_old0 = sum_30.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d30;
        sum_30.write(meta.index, meta.x_old0);
        hdr.lanes_0.d30 = meta.x_old0;
        meta.x_old0 = sum_31.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d31;
        sum_31.write(meta.index, meta.x_old0);
        hdr.lanes_0.d31 = meta.x_old0;
        meta.x_old0 = sum_32.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d32;
        sum_32.write(meta.index, meta.x_old0);
        hdr.lanes_1.d32 = meta.x_old0;
        meta.x_old0 = sum_33.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d33;
        sum_33.write(meta.index, meta.x_old0);
        hdr.lanes_1.d33 = meta.x_old0;
        meta.x_old0 = sum_34.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d34;
        sum_34.write(meta.index, meta.x_old0);
        hdr.lanes_1.d34 = meta.x_old0;
        meta.x_old0 = sum_35.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d35;
        sum_35.write(meta.index, meta.x_old0);
        hdr.lanes_1.d35 = meta.x_old0;
        meta.x_old0 = sum_36.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d36;
        sum_36.write(meta.index, meta.x_old0);
        hdr.lanes_1.d36 = meta.x_old0;
        meta.x_old0 = sum_37.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d37;
        sum_37.write(meta.index, meta.x_old0);
        hdr.lanes_1.d37 = meta.x_old0;
        meta.x_old0 = sum_38.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d38;
        sum_38.write(meta.index, meta.x_old0);
        hdr.lanes_1.d38 = meta.x_old0;
        meta.x_old0 = sum_39.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d39;
        sum_39.write(meta.index, meta.x_old0);
        hdr.lanes_1.d39 = meta.x_old0;
        meta.x_old0 = sum_40.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d40;
        sum_40.write(meta.index, meta.x_old0);
        hdr.lanes_1.d40 = meta.x_old0;
        meta.x_old0 = sum_41.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d41;
        sum_41.write(meta.index, meta.x_old0);
        hdr.lanes_1.d41 = meta.x_old0;
        meta.x_old0 = sum_42.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d42;
        sum_42.write(meta.index, meta.x_old0);
        hdr.lanes_1.d42 = meta.x_old0;
        meta.x_old0 = sum_43.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d43;
        sum_43.write(meta.index, meta.x_old0);
        hdr.lanes_1.d43 = meta.x_old0;
        meta.x_old0 = sum_44.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d44;
        sum_44.write(meta.index, meta.x_old0);
        hdr.lanes_1.d44 = meta.x_old0;
        meta.x_old0 = sum_45.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d45;
        sum_45.write(meta.index, meta.x_old0);
        hdr.lanes_1.d45 = meta.x_old0;
        meta.x_old0 = sum_46.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d46;
        sum_46.write(meta.index, meta.x_old0);
        hdr.lanes_1.d46 = meta.x_old0;
        meta.x_old0 = sum_47.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d47;
        sum_47.write(meta.index, meta.x_old0);
        hdr.lanes_1.d47 = meta.x_old0;
        meta.x_old0 = sum_48.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d48;
        sum_48.write(meta.index, meta.x_old0);
        hdr.lanes_1.d48 = meta.x_old0;
        meta.x_old0 = sum_49.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d49;
        sum_49.write(meta.index, meta.x_old0);
        hdr.lanes_1.d49 = meta.x_old0;
        meta.x_old0 = sum_50.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d50;
        sum_50.write(meta.index, meta.x_old0);
        hdr.lanes_1.d50 = meta.x_old0;
        meta.x_old0 = sum_51.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d51;
        sum_51.write(meta.index, meta.x_old0);
        hdr.lanes_1.d51 = meta.x_old0;
        meta.x_old0 = sum_52.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d52;
        sum_52.write(meta.index, meta.x_old0);
        hdr.lanes_1.d52 = meta.x_old0;
        meta.x_old0 = sum_53.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d53;
        sum_53.write(meta.index, meta.x_old0);
        hdr.lanes_1.d53 = meta.x_old0;
        meta.x_old0 = sum_54.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d54;
        sum_54.write(meta.index, meta.x_old0);
        hdr.lanes_1.d54 = meta.x_old0;
        meta.x_old0 = sum_55.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d55;
        sum_55.write(meta.index, meta.x_old0);
        hdr.lanes_1.d55 = meta.x_old0;
        meta.x_old0 = sum_56.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d56;
        sum_56.write(meta.index, meta.x_old0);
        hdr.lanes_1.d56 = meta.x_old0;
        meta.x_old0 = sum_57.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d57;
        sum_57.write(meta.index, meta.x_old0);
        hdr.lanes_1.d57 = meta.x_old0;
        meta.x_old0 = sum_58.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d58;
        sum_58.write(meta.index, meta.x_old0);
        hdr.lanes_1.d58 = meta.x_old0;
        meta.x_old0 = sum_59.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d59;
        sum_59.write(meta.index, meta.x_old0);
        hdr.lanes_1.d59 = meta.x_old0;
        meta.x_old0 = sum_60.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d60;
        sum_60.write(meta.index, meta.x_old0);
        hdr.lanes_1.d60 = meta.x_old0;
        meta.x_old0 = sum_61.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d61;
        sum_61.write(meta.index, meta.x_old0);
        hdr.lanes_1.d61 = meta.x_old0;
        meta.x_old0 = sum_62.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d62;
        sum_62.write(meta.index, meta.x_old0);
        hdr.lanes_1.d62 = meta.x_old0;
        meta.x_old0 = sum_63.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d63;
        sum_63.write(meta.index, meta.x_old0);
        hdr.lanes_1.d63 = meta.x_old0;
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
        sum_08.write(meta.index, hdr.lanes_0.d08);
        sum_09.write(meta.index, hdr.lanes_0.d09);
        sum_10.write(meta.index, hdr.lanes_0.d10);
        sum_11.write(meta.index, hdr.lanes_0.d11);
        sum_12.write(meta.index, hdr.lanes_0.d12);
        sum_13.write(meta.index, hdr.lanes_0.d13);
        sum_14.write(meta.index, hdr.lanes_0.d14);
        sum_15.write(meta.index, hdr.lanes_0.d15);
        sum_16.write(meta.index, hdr.lanes_0.d16);
        sum_17.write(meta.index, hdr.lanes_0.d17);
        sum_18.write(meta.index, hdr.lanes_0.d18);
        sum_19.write(meta.index, hdr.lanes_0.d19);
        sum_20.write(meta.index, hdr.lanes_0.d20);
        sum_21.write(meta.index, hdr.lanes_0.d21);
        sum_22.write(meta.index, hdr.lanes_0.d22);
        sum_23.write(meta.index, hdr.lanes_0.d23);
        sum_24.write(meta.index, hdr.lanes_0.d24);
        sum_25.write(meta.index, hdr.lanes_0.d25);
        sum_26.write(meta.index, hdr.lanes_0.d26);
        sum_27.write(meta.index, hdr.lanes_0.d27);
        sum_28.write(meta.index, hdr.lanes_0.d28);
        sum_29.write(meta.index, hdr.lanes_0.d29);
        sum_30.write(meta.index, hdr.lanes_0.d30);
        sum_31.write(meta.index, hdr.lanes_0.d31);
        sum_32.write(meta.index, hdr.lanes_1.d32);
        sum_33.write(meta.index, hdr.lanes_1.d33);
        sum_34.write(meta.index, hdr.lanes_1.d34);
        sum_35.write(meta.index, hdr.lanes_1.d35);
        sum_36.write(meta.index, hdr.lanes_1.d36);
        sum_37.write(meta.index, hdr.lanes_1.d37);
        sum_38.write(meta.index, hdr.lanes_1.d38);
        sum_39.write(meta.index, hdr.lanes_1.d39);
        sum_40.write(meta.index, hdr.lanes_1.d40);
        sum_41.write(meta.index, hdr.lanes_1.d41);
        sum_42.write(meta.index, hdr.lanes_1.d42);
        sum_43.write(meta.index, hdr.lanes_1.d43);
        sum_44.write(meta.index, hdr.lanes_1.d44);
        sum_45.write(meta.index, hdr.lanes_1.d45);
        sum_46.write(meta.index, hdr.lanes_1.d46);
        sum_47.write(meta.index, hdr.lanes_1.d47);
        sum_48.write(meta.index, hdr.lanes_1.d48);
        sum_49.write(meta.index, hdr.lanes_1.d49);
        sum_50.write(meta.index, hdr.lanes_1.d50);
        sum_51.write(meta.index, hdr.lanes_1.d51);
        sum_52.write(meta.index, hdr.lanes_1.d52);
        sum_53.write(meta.index, hdr.lanes_1.d53);
        sum_54.write(meta.index, hdr.lanes_1.d54);
        sum_55.write(meta.index, hdr.lanes_1.d55);
        sum_56.write(meta.index, hdr.lanes_1.d56);
        sum_57.write(meta.index, hdr.lanes_1.d57);
        sum_58.write(meta.index, hdr.lanes_1.d58);
        sum_59.write(meta.index, hdr.lanes_1.d59);
        sum_60.write(meta.index, hdr.lanes_1.d60);
        sum_61.write(meta.index, hdr.lanes_1.d61);
        sum_62.write(meta.index, hdr.lanes_1.d62);
        sum_63.write(meta.index, hdr.lanes_1.d63);
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
        meta.x_old0 = sum_08.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d08;
        sum_08.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_09.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d09;
        sum_09.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_10.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d10;
        sum_10.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_11.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d11;
        sum_11.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_12.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d12;
        sum_12.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_13.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d13;
        sum_13.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_14.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d14;
        sum_14.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_15.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d15;
        sum_15.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_16.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d16;
        sum_16.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_17.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d17;
        sum_17.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_18.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d18;
        sum_18.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_19.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d19;
        sum_19.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_20.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d20;
        sum_20.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_21.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d21;
        sum_21.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_22.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d22;
        sum_22.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_23.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d23;
        sum_23.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_24.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d24;
        sum_24.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_25.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d25;
        sum_25.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_26.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d26;
        sum_26.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_27.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d27;
        sum_27.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_28.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d28;
        sum_28.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_29.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d29;
        sum_29.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_30.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d30;
        sum_30.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_31.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_0.d31;
        sum_31.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_32.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d32;
        sum_32.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_33.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d33;
        sum_33.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_34.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d34;
        sum_34.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_35.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d35;
        sum_35.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_36.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d36;
        sum_36.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_37.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d37;
        sum_37.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_38.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d38;
        sum_38.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_39.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d39;
        sum_39.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_40.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d40;
        sum_40.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_41.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d41;
        sum_41.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_42.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d42;
        sum_42.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_43.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d43;
        sum_43.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_44.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d44;
        sum_44.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_45.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d45;
        sum_45.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_46.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d46;
        sum_46.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_47.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d47;
        sum_47.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_48.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d48;
        sum_48.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_49.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d49;
        sum_49.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_50.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d50;
        sum_50.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_51.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d51;
        sum_51.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_52.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d52;
        sum_52.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_53.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d53;
        sum_53.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_54.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d54;
        sum_54.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_55.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d55;
        sum_55.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_56.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d56;
        sum_56.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_57.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d57;
        sum_57.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_58.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d58;
        sum_58.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_59.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d59;
        sum_59.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_60.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d60;
        sum_60.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_61.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d61;
        sum_61.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_62.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d62;
        sum_62.write(meta.index, meta.x_old0);
        meta.x_old0 = sum_63.read(meta.index);
        meta.x_old0 = meta.x_old0 + hdr.lanes_1.d63;
        sum_63.write(meta.index, meta.x_old0);
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

    @id(0x0100000b)
    action challenge(@id(1) bit<32> token_high, @id(2) bit<32> token_low) {
        meta.others = token_high;
        meta.bit_mask = token_low;
        meta.reason = 8w0xe;
        meta.answer = 8w0x3;
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
            challenge;
        }
        const default_action = deny(0x5);
        size = 1934;
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
        size = 384;
    }

    @id(0x010000f1)
    action routed(@id(1) PortId_t port) {
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
            routed;
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
        if (hdr.netfold.isValid()) {
            if (meta.x_sum != 0 && meta.x_sum != 0xffff) {
                meta.reason = 8w0x1;
            } else {
                if ((hdr.netfold.version_kind >> 4) == 8w0x2) {
                    if ((hdr.lanes_0.isValid() && ((hdr.ipv4.total_len == 16w0x13c) && (hdr.udp.length == 16w0x128))) || ((!(hdr.lanes_0.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && ((hdr.ipv4.total_len == 16w0x3c) && (hdr.udp.length == 16w0x28)))) {
                        if (!((hdr.netfold.op_class >> 4) == 8w0x0)) {
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
                if ((hdr.netfold.version_kind & 8w0xf) == 8w0x6) {
                    claim_peek_out();
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
                meta.diff = hdr.netfold.chunk - meta.stored;
                meta.duplicate = meta.seen & meta.bit_mask;
                meta.missing = meta.others & ~meta.seen;
                if (meta.controller == 8w0x1) {
                    if (((hdr.netfold.version_kind & 8w0xf) == 8w0x7) && ((meta.diff ^ 32w0x80000000) > 32w0x80000000)) {
                        exponent_clear();
                        sum_clear();
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
                    if (32w0x80000000 > (meta.diff ^ 32w0x80000000)) {
                        hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                        hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x4;
                        hdr.lanes_0.setInvalid();
                        hdr.lanes_1.setInvalid();
                        hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                        hdr.udp.length = 16w0x28;
                        hdr.ipv4.total_len = 16w0x3c;
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
                                exponent_read_out();
                                if (hdr.lanes_0.isValid()) {
                                    sum_read_out();
                                }
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                hdr.netfold.bitmap = meta.others | meta.bit_mask;
                                hdr.netfold.count = meta.world;
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
                            } else {
                                meta.reason = 8w0xb;
                            }
                        } else {
                            if (meta.missing == 32w0x0) {
                                if (meta.diff != 32w0x0) {
                                    exponent_store_out();
                                    if (hdr.lanes_0.isValid()) {
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
                                    if (hdr.lanes_0.isValid()) {
                                        sum_sum_out();
                                    }
                                }
                                hdr.netfold.flags = hdr.netfold.flags & 8w0xfe;
                                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x2;
                                hdr.netfold.bitmap = meta.others | meta.bit_mask;
                                hdr.netfold.count = meta.world;
                                hdr.ipv4.ttl = 8w0x40;
                                hdr.udp.checksum = 16w0x0;
                                meta.answer = 8w0x2;
                                meta.x_instance = meta.group;
                                meta.x_send = 1;
                                answers.count(32w0x0);
                            } else {
                                if (meta.diff != 32w0x0) {
                                    exponent_store();
                                    if (hdr.lanes_0.isValid()) {
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
                                    if (hdr.lanes_0.isValid()) {
                                        sum_sum();
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
            hdr.lanes_1.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            hdr.udp.length = 16w0x28;
            hdr.ipv4.total_len = 16w0x3c;
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
            if (meta.answer == 8w0x3) {
                hdr.netfold.chunk = meta.others;
                hdr.netfold.bitmap = meta.bit_mask;
                hdr.netfold.version_kind = hdr.netfold.version_kind & 8w0xf0;
                hdr.netfold.version_kind = hdr.netfold.version_kind | 8w0x5;
                hdr.netfold.reason = meta.reason;
                hdr.lanes_0.setInvalid();
                hdr.lanes_1.setInvalid();
                hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                hdr.udp.length = 16w0x28;
                hdr.ipv4.total_len = 16w0x3c;
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
        }
        packets.count((bit<32>)meta.reason);
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
        pkt.emit(hdr.lanes_1);
    }
}

PNA_NIC(MainParserImpl(), PreControlImpl(), MainControlImpl(), MainDeparserImpl()) main;
