// netfold_all_reduce: in-network all-reduce: 64 word lanes of 32 bits, 1024 slots x 2 sets, up to 32 children.
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
    bit<16> first;
    bit<16> last;
    bit<8> reply;
    bit<48> swap;
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
    @id(0x16000001) register<bit<32>, bit<32>>(2048) claim_seen;
    @id(0x16000002) register<bit<32>, bit<32>>(2048) claim_chunk;
    @id(0x16000003) register<bit<32>, bit<32>>(2048) version_chunk;
    @id(0x16000004) register<bit<8>, bit<32>>(2048) exponent_exponent;
    @id(0x16001000) register<bit<32>, bit<32>>(2048) sum_00;
    @id(0x16001001) register<bit<32>, bit<32>>(2048) sum_01;
    @id(0x16001002) register<bit<32>, bit<32>>(2048) sum_02;
    @id(0x16001003) register<bit<32>, bit<32>>(2048) sum_03;
    @id(0x16001004) register<bit<32>, bit<32>>(2048) sum_04;
    @id(0x16001005) register<bit<32>, bit<32>>(2048) sum_05;
    @id(0x16001006) register<bit<32>, bit<32>>(2048) sum_06;
    @id(0x16001007) register<bit<32>, bit<32>>(2048) sum_07;
    @id(0x16001008) register<bit<32>, bit<32>>(2048) sum_08;
    @id(0x16001009) register<bit<32>, bit<32>>(2048) sum_09;
    @id(0x1600100a) register<bit<32>, bit<32>>(2048) sum_10;
    @id(0x1600100b) register<bit<32>, bit<32>>(2048) sum_11;
    @id(0x1600100c) register<bit<32>, bit<32>>(2048) sum_12;
    @id(0x1600100d) register<bit<32>, bit<32>>(2048) sum_13;
    @id(0x1600100e) register<bit<32>, bit<32>>(2048) sum_14;
    @id(0x1600100f) register<bit<32>, bit<32>>(2048) sum_15;
    @id(0x16001010) register<bit<32>, bit<32>>(2048) sum_16;
    @id(0x16001011) register<bit<32>, bit<32>>(2048) sum_17;
    @id(0x16001012) register<bit<32>, bit<32>>(2048) sum_18;
    @id(0x16001013) register<bit<32>, bit<32>>(2048) sum_19;
    @id(0x16001014) register<bit<32>, bit<32>>(2048) sum_20;
    @id(0x16001015) register<bit<32>, bit<32>>(2048) sum_21;
    @id(0x16001016) register<bit<32>, bit<32>>(2048) sum_22;
    @id(0x16001017) register<bit<32>, bit<32>>(2048) sum_23;
    @id(0x16001018) register<bit<32>, bit<32>>(2048) sum_24;
    @id(0x16001019) register<bit<32>, bit<32>>(2048) sum_25;
    @id(0x1600101a) register<bit<32>, bit<32>>(2048) sum_26;
    @id(0x1600101b) register<bit<32>, bit<32>>(2048) sum_27;
    @id(0x1600101c) register<bit<32>, bit<32>>(2048) sum_28;
    @id(0x1600101d) register<bit<32>, bit<32>>(2048) sum_29;
    @id(0x1600101e) register<bit<32>, bit<32>>(2048) sum_30;
    @id(0x1600101f) register<bit<32>, bit<32>>(2048) sum_31;
    @id(0x16001020) register<bit<32>, bit<32>>(2048) sum_32;
    @id(0x16001021) register<bit<32>, bit<32>>(2048) sum_33;
    @id(0x16001022) register<bit<32>, bit<32>>(2048) sum_34;
    @id(0x16001023) register<bit<32>, bit<32>>(2048) sum_35;
    @id(0x16001024) register<bit<32>, bit<32>>(2048) sum_36;
    @id(0x16001025) register<bit<32>, bit<32>>(2048) sum_37;
    @id(0x16001026) register<bit<32>, bit<32>>(2048) sum_38;
    @id(0x16001027) register<bit<32>, bit<32>>(2048) sum_39;
    @id(0x16001028) register<bit<32>, bit<32>>(2048) sum_40;
    @id(0x16001029) register<bit<32>, bit<32>>(2048) sum_41;
    @id(0x1600102a) register<bit<32>, bit<32>>(2048) sum_42;
    @id(0x1600102b) register<bit<32>, bit<32>>(2048) sum_43;
    @id(0x1600102c) register<bit<32>, bit<32>>(2048) sum_44;
    @id(0x1600102d) register<bit<32>, bit<32>>(2048) sum_45;
    @id(0x1600102e) register<bit<32>, bit<32>>(2048) sum_46;
    @id(0x1600102f) register<bit<32>, bit<32>>(2048) sum_47;
    @id(0x16001030) register<bit<32>, bit<32>>(2048) sum_48;
    @id(0x16001031) register<bit<32>, bit<32>>(2048) sum_49;
    @id(0x16001032) register<bit<32>, bit<32>>(2048) sum_50;
    @id(0x16001033) register<bit<32>, bit<32>>(2048) sum_51;
    @id(0x16001034) register<bit<32>, bit<32>>(2048) sum_52;
    @id(0x16001035) register<bit<32>, bit<32>>(2048) sum_53;
    @id(0x16001036) register<bit<32>, bit<32>>(2048) sum_54;
    @id(0x16001037) register<bit<32>, bit<32>>(2048) sum_55;
    @id(0x16001038) register<bit<32>, bit<32>>(2048) sum_56;
    @id(0x16001039) register<bit<32>, bit<32>>(2048) sum_57;
    @id(0x1600103a) register<bit<32>, bit<32>>(2048) sum_58;
    @id(0x1600103b) register<bit<32>, bit<32>>(2048) sum_59;
    @id(0x1600103c) register<bit<32>, bit<32>>(2048) sum_60;
    @id(0x1600103d) register<bit<32>, bit<32>>(2048) sum_61;
    @id(0x1600103e) register<bit<32>, bit<32>>(2048) sum_62;
    @id(0x1600103f) register<bit<32>, bit<32>>(2048) sum_63;
    @id(0x16000005) register<bit<32>, bit<32>>(2048) settled_chunk;
    @id(0x16000006) register<bit<32>, bit<32>>(2048) contributors_children;
    @id(0x16000007) register<bit<32>, bit<32>>(2048) tally_tally;
    @id(0x12000001) counter<bit<32>>(15, CounterType.packets) packets;
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
    action contributors_store() {
        contributors_children.write(meta.index, meta.share);
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
        sum_08.write(meta.index, hdr.lanes.d08);
        sum_09.write(meta.index, hdr.lanes.d09);
        sum_10.write(meta.index, hdr.lanes.d10);
        sum_11.write(meta.index, hdr.lanes.d11);
        sum_12.write(meta.index, hdr.lanes.d12);
        sum_13.write(meta.index, hdr.lanes.d13);
        sum_14.write(meta.index, hdr.lanes.d14);
        sum_15.write(meta.index, hdr.lanes.d15);
        sum_16.write(meta.index, hdr.lanes.d16);
        sum_17.write(meta.index, hdr.lanes.d17);
        sum_18.write(meta.index, hdr.lanes.d18);
        sum_19.write(meta.index, hdr.lanes.d19);
        sum_20.write(meta.index, hdr.lanes.d20);
        sum_21.write(meta.index, hdr.lanes.d21);
        sum_22.write(meta.index, hdr.lanes.d22);
        sum_23.write(meta.index, hdr.lanes.d23);
        sum_24.write(meta.index, hdr.lanes.d24);
        sum_25.write(meta.index, hdr.lanes.d25);
        sum_26.write(meta.index, hdr.lanes.d26);
        sum_27.write(meta.index, hdr.lanes.d27);
        sum_28.write(meta.index, hdr.lanes.d28);
        sum_29.write(meta.index, hdr.lanes.d29);
        sum_30.write(meta.index, hdr.lanes.d30);
        sum_31.write(meta.index, hdr.lanes.d31);
        sum_32.write(meta.index, hdr.lanes.d32);
        sum_33.write(meta.index, hdr.lanes.d33);
        sum_34.write(meta.index, hdr.lanes.d34);
        sum_35.write(meta.index, hdr.lanes.d35);
        sum_36.write(meta.index, hdr.lanes.d36);
        sum_37.write(meta.index, hdr.lanes.d37);
        sum_38.write(meta.index, hdr.lanes.d38);
        sum_39.write(meta.index, hdr.lanes.d39);
        sum_40.write(meta.index, hdr.lanes.d40);
        sum_41.write(meta.index, hdr.lanes.d41);
        sum_42.write(meta.index, hdr.lanes.d42);
        sum_43.write(meta.index, hdr.lanes.d43);
        sum_44.write(meta.index, hdr.lanes.d44);
        sum_45.write(meta.index, hdr.lanes.d45);
        sum_46.write(meta.index, hdr.lanes.d46);
        sum_47.write(meta.index, hdr.lanes.d47);
        sum_48.write(meta.index, hdr.lanes.d48);
        sum_49.write(meta.index, hdr.lanes.d49);
        sum_50.write(meta.index, hdr.lanes.d50);
        sum_51.write(meta.index, hdr.lanes.d51);
        sum_52.write(meta.index, hdr.lanes.d52);
        sum_53.write(meta.index, hdr.lanes.d53);
        sum_54.write(meta.index, hdr.lanes.d54);
        sum_55.write(meta.index, hdr.lanes.d55);
        sum_56.write(meta.index, hdr.lanes.d56);
        sum_57.write(meta.index, hdr.lanes.d57);
        sum_58.write(meta.index, hdr.lanes.d58);
        sum_59.write(meta.index, hdr.lanes.d59);
        sum_60.write(meta.index, hdr.lanes.d60);
        sum_61.write(meta.index, hdr.lanes.d61);
        sum_62.write(meta.index, hdr.lanes.d62);
        sum_63.write(meta.index, hdr.lanes.d63);
    }

    @hidden
    action contributors_read_out() {
        bit<32> old0;
        contributors_children.read(old0, meta.index);
        hdr.netfold.bitmap = old0;
    }

    @hidden
    action contributors_store_out() {
        contributors_children.write(meta.index, meta.share);
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
        sum_16.read(old0, meta.index);
        hdr.lanes.d16 = old0;
        sum_17.read(old0, meta.index);
        hdr.lanes.d17 = old0;
        sum_18.read(old0, meta.index);
        hdr.lanes.d18 = old0;
        sum_19.read(old0, meta.index);
        hdr.lanes.d19 = old0;
        sum_20.read(old0, meta.index);
        hdr.lanes.d20 = old0;
        sum_21.read(old0, meta.index);
        hdr.lanes.d21 = old0;
        sum_22.read(old0, meta.index);
        hdr.lanes.d22 = old0;
        sum_23.read(old0, meta.index);
        hdr.lanes.d23 = old0;
        sum_24.read(old0, meta.index);
        hdr.lanes.d24 = old0;
        sum_25.read(old0, meta.index);
        hdr.lanes.d25 = old0;
        sum_26.read(old0, meta.index);
        hdr.lanes.d26 = old0;
        sum_27.read(old0, meta.index);
        hdr.lanes.d27 = old0;
        sum_28.read(old0, meta.index);
        hdr.lanes.d28 = old0;
        sum_29.read(old0, meta.index);
        hdr.lanes.d29 = old0;
        sum_30.read(old0, meta.index);
        hdr.lanes.d30 = old0;
        sum_31.read(old0, meta.index);
        hdr.lanes.d31 = old0;
        sum_32.read(old0, meta.index);
        hdr.lanes.d32 = old0;
        sum_33.read(old0, meta.index);
        hdr.lanes.d33 = old0;
        sum_34.read(old0, meta.index);
        hdr.lanes.d34 = old0;
        sum_35.read(old0, meta.index);
        hdr.lanes.d35 = old0;
        sum_36.read(old0, meta.index);
        hdr.lanes.d36 = old0;
        sum_37.read(old0, meta.index);
        hdr.lanes.d37 = old0;
        sum_38.read(old0, meta.index);
        hdr.lanes.d38 = old0;
        sum_39.read(old0, meta.index);
        hdr.lanes.d39 = old0;
        sum_40.read(old0, meta.index);
        hdr.lanes.d40 = old0;
        sum_41.read(old0, meta.index);
        hdr.lanes.d41 = old0;
        sum_42.read(old0, meta.index);
        hdr.lanes.d42 = old0;
        sum_43.read(old0, meta.index);
        hdr.lanes.d43 = old0;
        sum_44.read(old0, meta.index);
        hdr.lanes.d44 = old0;
        sum_45.read(old0, meta.index);
        hdr.lanes.d45 = old0;
        sum_46.read(old0, meta.index);
        hdr.lanes.d46 = old0;
        sum_47.read(old0, meta.index);
        hdr.lanes.d47 = old0;
        sum_48.read(old0, meta.index);
        hdr.lanes.d48 = old0;
        sum_49.read(old0, meta.index);
        hdr.lanes.d49 = old0;
        sum_50.read(old0, meta.index);
        hdr.lanes.d50 = old0;
        sum_51.read(old0, meta.index);
        hdr.lanes.d51 = old0;
        sum_52.read(old0, meta.index);
        hdr.lanes.d52 = old0;
        sum_53.read(old0, meta.index);
        hdr.lanes.d53 = old0;
        sum_54.read(old0, meta.index);
        hdr.lanes.d54 = old0;
        sum_55.read(old0, meta.index);
        hdr.lanes.d55 = old0;
        sum_56.read(old0, meta.index);
        hdr.lanes.d56 = old0;
        sum_57.read(old0, meta.index);
        hdr.lanes.d57 = old0;
        sum_58.read(old0, meta.index);
        hdr.lanes.d58 = old0;
        sum_59.read(old0, meta.index);
        hdr.lanes.d59 = old0;
        sum_60.read(old0, meta.index);
        hdr.lanes.d60 = old0;
        sum_61.read(old0, meta.index);
        hdr.lanes.d61 = old0;
        sum_62.read(old0, meta.index);
        hdr.lanes.d62 = old0;
        sum_63.read(old0, meta.index);
        hdr.lanes.d63 = old0;
    }

    @hidden
    action contributors_add_out() {
        bit<32> old0;
        contributors_children.read(old0, meta.index);
        contributors_children.write(meta.index, old0 | meta.share);
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
        sum_08.write(meta.index, hdr.lanes.d08);
        sum_09.write(meta.index, hdr.lanes.d09);
        sum_10.write(meta.index, hdr.lanes.d10);
        sum_11.write(meta.index, hdr.lanes.d11);
        sum_12.write(meta.index, hdr.lanes.d12);
        sum_13.write(meta.index, hdr.lanes.d13);
        sum_14.write(meta.index, hdr.lanes.d14);
        sum_15.write(meta.index, hdr.lanes.d15);
        sum_16.write(meta.index, hdr.lanes.d16);
        sum_17.write(meta.index, hdr.lanes.d17);
        sum_18.write(meta.index, hdr.lanes.d18);
        sum_19.write(meta.index, hdr.lanes.d19);
        sum_20.write(meta.index, hdr.lanes.d20);
        sum_21.write(meta.index, hdr.lanes.d21);
        sum_22.write(meta.index, hdr.lanes.d22);
        sum_23.write(meta.index, hdr.lanes.d23);
        sum_24.write(meta.index, hdr.lanes.d24);
        sum_25.write(meta.index, hdr.lanes.d25);
        sum_26.write(meta.index, hdr.lanes.d26);
        sum_27.write(meta.index, hdr.lanes.d27);
        sum_28.write(meta.index, hdr.lanes.d28);
        sum_29.write(meta.index, hdr.lanes.d29);
        sum_30.write(meta.index, hdr.lanes.d30);
        sum_31.write(meta.index, hdr.lanes.d31);
        sum_32.write(meta.index, hdr.lanes.d32);
        sum_33.write(meta.index, hdr.lanes.d33);
        sum_34.write(meta.index, hdr.lanes.d34);
        sum_35.write(meta.index, hdr.lanes.d35);
        sum_36.write(meta.index, hdr.lanes.d36);
        sum_37.write(meta.index, hdr.lanes.d37);
        sum_38.write(meta.index, hdr.lanes.d38);
        sum_39.write(meta.index, hdr.lanes.d39);
        sum_40.write(meta.index, hdr.lanes.d40);
        sum_41.write(meta.index, hdr.lanes.d41);
        sum_42.write(meta.index, hdr.lanes.d42);
        sum_43.write(meta.index, hdr.lanes.d43);
        sum_44.write(meta.index, hdr.lanes.d44);
        sum_45.write(meta.index, hdr.lanes.d45);
        sum_46.write(meta.index, hdr.lanes.d46);
        sum_47.write(meta.index, hdr.lanes.d47);
        sum_48.write(meta.index, hdr.lanes.d48);
        sum_49.write(meta.index, hdr.lanes.d49);
        sum_50.write(meta.index, hdr.lanes.d50);
        sum_51.write(meta.index, hdr.lanes.d51);
        sum_52.write(meta.index, hdr.lanes.d52);
        sum_53.write(meta.index, hdr.lanes.d53);
        sum_54.write(meta.index, hdr.lanes.d54);
        sum_55.write(meta.index, hdr.lanes.d55);
        sum_56.write(meta.index, hdr.lanes.d56);
        sum_57.write(meta.index, hdr.lanes.d57);
        sum_58.write(meta.index, hdr.lanes.d58);
        sum_59.write(meta.index, hdr.lanes.d59);
        sum_60.write(meta.index, hdr.lanes.d60);
        sum_61.write(meta.index, hdr.lanes.d61);
        sum_62.write(meta.index, hdr.lanes.d62);
        sum_63.write(meta.index, hdr.lanes.d63);
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
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 + hdr.lanes.d16);
        hdr.lanes.d16 = old0 + hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 + hdr.lanes.d17);
        hdr.lanes.d17 = old0 + hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 + hdr.lanes.d18);
        hdr.lanes.d18 = old0 + hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 + hdr.lanes.d19);
        hdr.lanes.d19 = old0 + hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 + hdr.lanes.d20);
        hdr.lanes.d20 = old0 + hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 + hdr.lanes.d21);
        hdr.lanes.d21 = old0 + hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 + hdr.lanes.d22);
        hdr.lanes.d22 = old0 + hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 + hdr.lanes.d23);
        hdr.lanes.d23 = old0 + hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 + hdr.lanes.d24);
        hdr.lanes.d24 = old0 + hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 + hdr.lanes.d25);
        hdr.lanes.d25 = old0 + hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 + hdr.lanes.d26);
        hdr.lanes.d26 = old0 + hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 + hdr.lanes.d27);
        hdr.lanes.d27 = old0 + hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 + hdr.lanes.d28);
        hdr.lanes.d28 = old0 + hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 + hdr.lanes.d29);
        hdr.lanes.d29 = old0 + hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 + hdr.lanes.d30);
        hdr.lanes.d30 = old0 + hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 + hdr.lanes.d31);
        hdr.lanes.d31 = old0 + hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 + hdr.lanes.d32);
        hdr.lanes.d32 = old0 + hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 + hdr.lanes.d33);
        hdr.lanes.d33 = old0 + hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 + hdr.lanes.d34);
        hdr.lanes.d34 = old0 + hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 + hdr.lanes.d35);
        hdr.lanes.d35 = old0 + hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 + hdr.lanes.d36);
        hdr.lanes.d36 = old0 + hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 + hdr.lanes.d37);
        hdr.lanes.d37 = old0 + hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 + hdr.lanes.d38);
        hdr.lanes.d38 = old0 + hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 + hdr.lanes.d39);
        hdr.lanes.d39 = old0 + hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 + hdr.lanes.d40);
        hdr.lanes.d40 = old0 + hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 + hdr.lanes.d41);
        hdr.lanes.d41 = old0 + hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 + hdr.lanes.d42);
        hdr.lanes.d42 = old0 + hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 + hdr.lanes.d43);
        hdr.lanes.d43 = old0 + hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 + hdr.lanes.d44);
        hdr.lanes.d44 = old0 + hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 + hdr.lanes.d45);
        hdr.lanes.d45 = old0 + hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 + hdr.lanes.d46);
        hdr.lanes.d46 = old0 + hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 + hdr.lanes.d47);
        hdr.lanes.d47 = old0 + hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 + hdr.lanes.d48);
        hdr.lanes.d48 = old0 + hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 + hdr.lanes.d49);
        hdr.lanes.d49 = old0 + hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 + hdr.lanes.d50);
        hdr.lanes.d50 = old0 + hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 + hdr.lanes.d51);
        hdr.lanes.d51 = old0 + hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 + hdr.lanes.d52);
        hdr.lanes.d52 = old0 + hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 + hdr.lanes.d53);
        hdr.lanes.d53 = old0 + hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 + hdr.lanes.d54);
        hdr.lanes.d54 = old0 + hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 + hdr.lanes.d55);
        hdr.lanes.d55 = old0 + hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 + hdr.lanes.d56);
        hdr.lanes.d56 = old0 + hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 + hdr.lanes.d57);
        hdr.lanes.d57 = old0 + hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 + hdr.lanes.d58);
        hdr.lanes.d58 = old0 + hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 + hdr.lanes.d59);
        hdr.lanes.d59 = old0 + hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 + hdr.lanes.d60);
        hdr.lanes.d60 = old0 + hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 + hdr.lanes.d61);
        hdr.lanes.d61 = old0 + hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 + hdr.lanes.d62);
        hdr.lanes.d62 = old0 + hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 + hdr.lanes.d63);
        hdr.lanes.d63 = old0 + hdr.lanes.d63;
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08);
        hdr.lanes.d08 = (int<32>)(old0) < (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09);
        hdr.lanes.d09 = (int<32>)(old0) < (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10);
        hdr.lanes.d10 = (int<32>)(old0) < (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11);
        hdr.lanes.d11 = (int<32>)(old0) < (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12);
        hdr.lanes.d12 = (int<32>)(old0) < (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13);
        hdr.lanes.d13 = (int<32>)(old0) < (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14);
        hdr.lanes.d14 = (int<32>)(old0) < (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15);
        hdr.lanes.d15 = (int<32>)(old0) < (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15;
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16);
        hdr.lanes.d16 = (int<32>)(old0) < (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17);
        hdr.lanes.d17 = (int<32>)(old0) < (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18);
        hdr.lanes.d18 = (int<32>)(old0) < (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19);
        hdr.lanes.d19 = (int<32>)(old0) < (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20);
        hdr.lanes.d20 = (int<32>)(old0) < (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21);
        hdr.lanes.d21 = (int<32>)(old0) < (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22);
        hdr.lanes.d22 = (int<32>)(old0) < (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23);
        hdr.lanes.d23 = (int<32>)(old0) < (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24);
        hdr.lanes.d24 = (int<32>)(old0) < (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25);
        hdr.lanes.d25 = (int<32>)(old0) < (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26);
        hdr.lanes.d26 = (int<32>)(old0) < (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27);
        hdr.lanes.d27 = (int<32>)(old0) < (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28);
        hdr.lanes.d28 = (int<32>)(old0) < (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29);
        hdr.lanes.d29 = (int<32>)(old0) < (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30);
        hdr.lanes.d30 = (int<32>)(old0) < (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31);
        hdr.lanes.d31 = (int<32>)(old0) < (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32);
        hdr.lanes.d32 = (int<32>)(old0) < (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33);
        hdr.lanes.d33 = (int<32>)(old0) < (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34);
        hdr.lanes.d34 = (int<32>)(old0) < (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35);
        hdr.lanes.d35 = (int<32>)(old0) < (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36);
        hdr.lanes.d36 = (int<32>)(old0) < (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37);
        hdr.lanes.d37 = (int<32>)(old0) < (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38);
        hdr.lanes.d38 = (int<32>)(old0) < (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39);
        hdr.lanes.d39 = (int<32>)(old0) < (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40);
        hdr.lanes.d40 = (int<32>)(old0) < (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41);
        hdr.lanes.d41 = (int<32>)(old0) < (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42);
        hdr.lanes.d42 = (int<32>)(old0) < (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43);
        hdr.lanes.d43 = (int<32>)(old0) < (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44);
        hdr.lanes.d44 = (int<32>)(old0) < (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45);
        hdr.lanes.d45 = (int<32>)(old0) < (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46);
        hdr.lanes.d46 = (int<32>)(old0) < (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47);
        hdr.lanes.d47 = (int<32>)(old0) < (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48);
        hdr.lanes.d48 = (int<32>)(old0) < (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49);
        hdr.lanes.d49 = (int<32>)(old0) < (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50);
        hdr.lanes.d50 = (int<32>)(old0) < (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51);
        hdr.lanes.d51 = (int<32>)(old0) < (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52);
        hdr.lanes.d52 = (int<32>)(old0) < (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53);
        hdr.lanes.d53 = (int<32>)(old0) < (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54);
        hdr.lanes.d54 = (int<32>)(old0) < (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55);
        hdr.lanes.d55 = (int<32>)(old0) < (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56);
        hdr.lanes.d56 = (int<32>)(old0) < (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57);
        hdr.lanes.d57 = (int<32>)(old0) < (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58);
        hdr.lanes.d58 = (int<32>)(old0) < (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59);
        hdr.lanes.d59 = (int<32>)(old0) < (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60);
        hdr.lanes.d60 = (int<32>)(old0) < (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61);
        hdr.lanes.d61 = (int<32>)(old0) < (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62);
        hdr.lanes.d62 = (int<32>)(old0) < (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63);
        hdr.lanes.d63 = (int<32>)(old0) < (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63;
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08);
        hdr.lanes.d08 = (int<32>)(old0) > (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09);
        hdr.lanes.d09 = (int<32>)(old0) > (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10);
        hdr.lanes.d10 = (int<32>)(old0) > (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11);
        hdr.lanes.d11 = (int<32>)(old0) > (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12);
        hdr.lanes.d12 = (int<32>)(old0) > (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13);
        hdr.lanes.d13 = (int<32>)(old0) > (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14);
        hdr.lanes.d14 = (int<32>)(old0) > (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15);
        hdr.lanes.d15 = (int<32>)(old0) > (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15;
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16);
        hdr.lanes.d16 = (int<32>)(old0) > (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17);
        hdr.lanes.d17 = (int<32>)(old0) > (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18);
        hdr.lanes.d18 = (int<32>)(old0) > (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19);
        hdr.lanes.d19 = (int<32>)(old0) > (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20);
        hdr.lanes.d20 = (int<32>)(old0) > (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21);
        hdr.lanes.d21 = (int<32>)(old0) > (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22);
        hdr.lanes.d22 = (int<32>)(old0) > (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23);
        hdr.lanes.d23 = (int<32>)(old0) > (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24);
        hdr.lanes.d24 = (int<32>)(old0) > (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25);
        hdr.lanes.d25 = (int<32>)(old0) > (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26);
        hdr.lanes.d26 = (int<32>)(old0) > (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27);
        hdr.lanes.d27 = (int<32>)(old0) > (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28);
        hdr.lanes.d28 = (int<32>)(old0) > (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29);
        hdr.lanes.d29 = (int<32>)(old0) > (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30);
        hdr.lanes.d30 = (int<32>)(old0) > (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31);
        hdr.lanes.d31 = (int<32>)(old0) > (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32);
        hdr.lanes.d32 = (int<32>)(old0) > (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33);
        hdr.lanes.d33 = (int<32>)(old0) > (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34);
        hdr.lanes.d34 = (int<32>)(old0) > (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35);
        hdr.lanes.d35 = (int<32>)(old0) > (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36);
        hdr.lanes.d36 = (int<32>)(old0) > (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37);
        hdr.lanes.d37 = (int<32>)(old0) > (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38);
        hdr.lanes.d38 = (int<32>)(old0) > (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39);
        hdr.lanes.d39 = (int<32>)(old0) > (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40);
        hdr.lanes.d40 = (int<32>)(old0) > (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41);
        hdr.lanes.d41 = (int<32>)(old0) > (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42);
        hdr.lanes.d42 = (int<32>)(old0) > (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43);
        hdr.lanes.d43 = (int<32>)(old0) > (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44);
        hdr.lanes.d44 = (int<32>)(old0) > (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45);
        hdr.lanes.d45 = (int<32>)(old0) > (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46);
        hdr.lanes.d46 = (int<32>)(old0) > (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47);
        hdr.lanes.d47 = (int<32>)(old0) > (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48);
        hdr.lanes.d48 = (int<32>)(old0) > (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49);
        hdr.lanes.d49 = (int<32>)(old0) > (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50);
        hdr.lanes.d50 = (int<32>)(old0) > (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51);
        hdr.lanes.d51 = (int<32>)(old0) > (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52);
        hdr.lanes.d52 = (int<32>)(old0) > (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53);
        hdr.lanes.d53 = (int<32>)(old0) > (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54);
        hdr.lanes.d54 = (int<32>)(old0) > (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55);
        hdr.lanes.d55 = (int<32>)(old0) > (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56);
        hdr.lanes.d56 = (int<32>)(old0) > (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57);
        hdr.lanes.d57 = (int<32>)(old0) > (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58);
        hdr.lanes.d58 = (int<32>)(old0) > (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59);
        hdr.lanes.d59 = (int<32>)(old0) > (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60);
        hdr.lanes.d60 = (int<32>)(old0) > (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61);
        hdr.lanes.d61 = (int<32>)(old0) > (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62);
        hdr.lanes.d62 = (int<32>)(old0) > (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63);
        hdr.lanes.d63 = (int<32>)(old0) > (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63;
    }

    @hidden
    action sum_and_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 & hdr.lanes.d00);
        hdr.lanes.d00 = old0 & hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 & hdr.lanes.d01);
        hdr.lanes.d01 = old0 & hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 & hdr.lanes.d02);
        hdr.lanes.d02 = old0 & hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 & hdr.lanes.d03);
        hdr.lanes.d03 = old0 & hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 & hdr.lanes.d04);
        hdr.lanes.d04 = old0 & hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 & hdr.lanes.d05);
        hdr.lanes.d05 = old0 & hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 & hdr.lanes.d06);
        hdr.lanes.d06 = old0 & hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 & hdr.lanes.d07);
        hdr.lanes.d07 = old0 & hdr.lanes.d07;
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 & hdr.lanes.d08);
        hdr.lanes.d08 = old0 & hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 & hdr.lanes.d09);
        hdr.lanes.d09 = old0 & hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 & hdr.lanes.d10);
        hdr.lanes.d10 = old0 & hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 & hdr.lanes.d11);
        hdr.lanes.d11 = old0 & hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 & hdr.lanes.d12);
        hdr.lanes.d12 = old0 & hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 & hdr.lanes.d13);
        hdr.lanes.d13 = old0 & hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 & hdr.lanes.d14);
        hdr.lanes.d14 = old0 & hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 & hdr.lanes.d15);
        hdr.lanes.d15 = old0 & hdr.lanes.d15;
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 & hdr.lanes.d16);
        hdr.lanes.d16 = old0 & hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 & hdr.lanes.d17);
        hdr.lanes.d17 = old0 & hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 & hdr.lanes.d18);
        hdr.lanes.d18 = old0 & hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 & hdr.lanes.d19);
        hdr.lanes.d19 = old0 & hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 & hdr.lanes.d20);
        hdr.lanes.d20 = old0 & hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 & hdr.lanes.d21);
        hdr.lanes.d21 = old0 & hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 & hdr.lanes.d22);
        hdr.lanes.d22 = old0 & hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 & hdr.lanes.d23);
        hdr.lanes.d23 = old0 & hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 & hdr.lanes.d24);
        hdr.lanes.d24 = old0 & hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 & hdr.lanes.d25);
        hdr.lanes.d25 = old0 & hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 & hdr.lanes.d26);
        hdr.lanes.d26 = old0 & hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 & hdr.lanes.d27);
        hdr.lanes.d27 = old0 & hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 & hdr.lanes.d28);
        hdr.lanes.d28 = old0 & hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 & hdr.lanes.d29);
        hdr.lanes.d29 = old0 & hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 & hdr.lanes.d30);
        hdr.lanes.d30 = old0 & hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 & hdr.lanes.d31);
        hdr.lanes.d31 = old0 & hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 & hdr.lanes.d32);
        hdr.lanes.d32 = old0 & hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 & hdr.lanes.d33);
        hdr.lanes.d33 = old0 & hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 & hdr.lanes.d34);
        hdr.lanes.d34 = old0 & hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 & hdr.lanes.d35);
        hdr.lanes.d35 = old0 & hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 & hdr.lanes.d36);
        hdr.lanes.d36 = old0 & hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 & hdr.lanes.d37);
        hdr.lanes.d37 = old0 & hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 & hdr.lanes.d38);
        hdr.lanes.d38 = old0 & hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 & hdr.lanes.d39);
        hdr.lanes.d39 = old0 & hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 & hdr.lanes.d40);
        hdr.lanes.d40 = old0 & hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 & hdr.lanes.d41);
        hdr.lanes.d41 = old0 & hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 & hdr.lanes.d42);
        hdr.lanes.d42 = old0 & hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 & hdr.lanes.d43);
        hdr.lanes.d43 = old0 & hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 & hdr.lanes.d44);
        hdr.lanes.d44 = old0 & hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 & hdr.lanes.d45);
        hdr.lanes.d45 = old0 & hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 & hdr.lanes.d46);
        hdr.lanes.d46 = old0 & hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 & hdr.lanes.d47);
        hdr.lanes.d47 = old0 & hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 & hdr.lanes.d48);
        hdr.lanes.d48 = old0 & hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 & hdr.lanes.d49);
        hdr.lanes.d49 = old0 & hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 & hdr.lanes.d50);
        hdr.lanes.d50 = old0 & hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 & hdr.lanes.d51);
        hdr.lanes.d51 = old0 & hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 & hdr.lanes.d52);
        hdr.lanes.d52 = old0 & hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 & hdr.lanes.d53);
        hdr.lanes.d53 = old0 & hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 & hdr.lanes.d54);
        hdr.lanes.d54 = old0 & hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 & hdr.lanes.d55);
        hdr.lanes.d55 = old0 & hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 & hdr.lanes.d56);
        hdr.lanes.d56 = old0 & hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 & hdr.lanes.d57);
        hdr.lanes.d57 = old0 & hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 & hdr.lanes.d58);
        hdr.lanes.d58 = old0 & hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 & hdr.lanes.d59);
        hdr.lanes.d59 = old0 & hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 & hdr.lanes.d60);
        hdr.lanes.d60 = old0 & hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 & hdr.lanes.d61);
        hdr.lanes.d61 = old0 & hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 & hdr.lanes.d62);
        hdr.lanes.d62 = old0 & hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 & hdr.lanes.d63);
        hdr.lanes.d63 = old0 & hdr.lanes.d63;
    }

    @hidden
    action sum_or_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 | hdr.lanes.d00);
        hdr.lanes.d00 = old0 | hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 | hdr.lanes.d01);
        hdr.lanes.d01 = old0 | hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 | hdr.lanes.d02);
        hdr.lanes.d02 = old0 | hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 | hdr.lanes.d03);
        hdr.lanes.d03 = old0 | hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 | hdr.lanes.d04);
        hdr.lanes.d04 = old0 | hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 | hdr.lanes.d05);
        hdr.lanes.d05 = old0 | hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 | hdr.lanes.d06);
        hdr.lanes.d06 = old0 | hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 | hdr.lanes.d07);
        hdr.lanes.d07 = old0 | hdr.lanes.d07;
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 | hdr.lanes.d08);
        hdr.lanes.d08 = old0 | hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 | hdr.lanes.d09);
        hdr.lanes.d09 = old0 | hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 | hdr.lanes.d10);
        hdr.lanes.d10 = old0 | hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 | hdr.lanes.d11);
        hdr.lanes.d11 = old0 | hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 | hdr.lanes.d12);
        hdr.lanes.d12 = old0 | hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 | hdr.lanes.d13);
        hdr.lanes.d13 = old0 | hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 | hdr.lanes.d14);
        hdr.lanes.d14 = old0 | hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 | hdr.lanes.d15);
        hdr.lanes.d15 = old0 | hdr.lanes.d15;
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 | hdr.lanes.d16);
        hdr.lanes.d16 = old0 | hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 | hdr.lanes.d17);
        hdr.lanes.d17 = old0 | hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 | hdr.lanes.d18);
        hdr.lanes.d18 = old0 | hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 | hdr.lanes.d19);
        hdr.lanes.d19 = old0 | hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 | hdr.lanes.d20);
        hdr.lanes.d20 = old0 | hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 | hdr.lanes.d21);
        hdr.lanes.d21 = old0 | hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 | hdr.lanes.d22);
        hdr.lanes.d22 = old0 | hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 | hdr.lanes.d23);
        hdr.lanes.d23 = old0 | hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 | hdr.lanes.d24);
        hdr.lanes.d24 = old0 | hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 | hdr.lanes.d25);
        hdr.lanes.d25 = old0 | hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 | hdr.lanes.d26);
        hdr.lanes.d26 = old0 | hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 | hdr.lanes.d27);
        hdr.lanes.d27 = old0 | hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 | hdr.lanes.d28);
        hdr.lanes.d28 = old0 | hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 | hdr.lanes.d29);
        hdr.lanes.d29 = old0 | hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 | hdr.lanes.d30);
        hdr.lanes.d30 = old0 | hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 | hdr.lanes.d31);
        hdr.lanes.d31 = old0 | hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 | hdr.lanes.d32);
        hdr.lanes.d32 = old0 | hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 | hdr.lanes.d33);
        hdr.lanes.d33 = old0 | hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 | hdr.lanes.d34);
        hdr.lanes.d34 = old0 | hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 | hdr.lanes.d35);
        hdr.lanes.d35 = old0 | hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 | hdr.lanes.d36);
        hdr.lanes.d36 = old0 | hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 | hdr.lanes.d37);
        hdr.lanes.d37 = old0 | hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 | hdr.lanes.d38);
        hdr.lanes.d38 = old0 | hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 | hdr.lanes.d39);
        hdr.lanes.d39 = old0 | hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 | hdr.lanes.d40);
        hdr.lanes.d40 = old0 | hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 | hdr.lanes.d41);
        hdr.lanes.d41 = old0 | hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 | hdr.lanes.d42);
        hdr.lanes.d42 = old0 | hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 | hdr.lanes.d43);
        hdr.lanes.d43 = old0 | hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 | hdr.lanes.d44);
        hdr.lanes.d44 = old0 | hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 | hdr.lanes.d45);
        hdr.lanes.d45 = old0 | hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 | hdr.lanes.d46);
        hdr.lanes.d46 = old0 | hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 | hdr.lanes.d47);
        hdr.lanes.d47 = old0 | hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 | hdr.lanes.d48);
        hdr.lanes.d48 = old0 | hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 | hdr.lanes.d49);
        hdr.lanes.d49 = old0 | hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 | hdr.lanes.d50);
        hdr.lanes.d50 = old0 | hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 | hdr.lanes.d51);
        hdr.lanes.d51 = old0 | hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 | hdr.lanes.d52);
        hdr.lanes.d52 = old0 | hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 | hdr.lanes.d53);
        hdr.lanes.d53 = old0 | hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 | hdr.lanes.d54);
        hdr.lanes.d54 = old0 | hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 | hdr.lanes.d55);
        hdr.lanes.d55 = old0 | hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 | hdr.lanes.d56);
        hdr.lanes.d56 = old0 | hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 | hdr.lanes.d57);
        hdr.lanes.d57 = old0 | hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 | hdr.lanes.d58);
        hdr.lanes.d58 = old0 | hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 | hdr.lanes.d59);
        hdr.lanes.d59 = old0 | hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 | hdr.lanes.d60);
        hdr.lanes.d60 = old0 | hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 | hdr.lanes.d61);
        hdr.lanes.d61 = old0 | hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 | hdr.lanes.d62);
        hdr.lanes.d62 = old0 | hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 | hdr.lanes.d63);
        hdr.lanes.d63 = old0 | hdr.lanes.d63;
    }

    @hidden
    action sum_xor_out() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 ^ hdr.lanes.d00);
        hdr.lanes.d00 = old0 ^ hdr.lanes.d00;
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 ^ hdr.lanes.d01);
        hdr.lanes.d01 = old0 ^ hdr.lanes.d01;
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 ^ hdr.lanes.d02);
        hdr.lanes.d02 = old0 ^ hdr.lanes.d02;
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 ^ hdr.lanes.d03);
        hdr.lanes.d03 = old0 ^ hdr.lanes.d03;
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 ^ hdr.lanes.d04);
        hdr.lanes.d04 = old0 ^ hdr.lanes.d04;
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 ^ hdr.lanes.d05);
        hdr.lanes.d05 = old0 ^ hdr.lanes.d05;
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 ^ hdr.lanes.d06);
        hdr.lanes.d06 = old0 ^ hdr.lanes.d06;
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 ^ hdr.lanes.d07);
        hdr.lanes.d07 = old0 ^ hdr.lanes.d07;
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 ^ hdr.lanes.d08);
        hdr.lanes.d08 = old0 ^ hdr.lanes.d08;
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 ^ hdr.lanes.d09);
        hdr.lanes.d09 = old0 ^ hdr.lanes.d09;
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 ^ hdr.lanes.d10);
        hdr.lanes.d10 = old0 ^ hdr.lanes.d10;
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 ^ hdr.lanes.d11);
        hdr.lanes.d11 = old0 ^ hdr.lanes.d11;
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 ^ hdr.lanes.d12);
        hdr.lanes.d12 = old0 ^ hdr.lanes.d12;
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 ^ hdr.lanes.d13);
        hdr.lanes.d13 = old0 ^ hdr.lanes.d13;
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 ^ hdr.lanes.d14);
        hdr.lanes.d14 = old0 ^ hdr.lanes.d14;
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 ^ hdr.lanes.d15);
        hdr.lanes.d15 = old0 ^ hdr.lanes.d15;
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 ^ hdr.lanes.d16);
        hdr.lanes.d16 = old0 ^ hdr.lanes.d16;
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 ^ hdr.lanes.d17);
        hdr.lanes.d17 = old0 ^ hdr.lanes.d17;
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 ^ hdr.lanes.d18);
        hdr.lanes.d18 = old0 ^ hdr.lanes.d18;
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 ^ hdr.lanes.d19);
        hdr.lanes.d19 = old0 ^ hdr.lanes.d19;
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 ^ hdr.lanes.d20);
        hdr.lanes.d20 = old0 ^ hdr.lanes.d20;
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 ^ hdr.lanes.d21);
        hdr.lanes.d21 = old0 ^ hdr.lanes.d21;
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 ^ hdr.lanes.d22);
        hdr.lanes.d22 = old0 ^ hdr.lanes.d22;
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 ^ hdr.lanes.d23);
        hdr.lanes.d23 = old0 ^ hdr.lanes.d23;
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 ^ hdr.lanes.d24);
        hdr.lanes.d24 = old0 ^ hdr.lanes.d24;
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 ^ hdr.lanes.d25);
        hdr.lanes.d25 = old0 ^ hdr.lanes.d25;
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 ^ hdr.lanes.d26);
        hdr.lanes.d26 = old0 ^ hdr.lanes.d26;
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 ^ hdr.lanes.d27);
        hdr.lanes.d27 = old0 ^ hdr.lanes.d27;
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 ^ hdr.lanes.d28);
        hdr.lanes.d28 = old0 ^ hdr.lanes.d28;
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 ^ hdr.lanes.d29);
        hdr.lanes.d29 = old0 ^ hdr.lanes.d29;
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 ^ hdr.lanes.d30);
        hdr.lanes.d30 = old0 ^ hdr.lanes.d30;
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 ^ hdr.lanes.d31);
        hdr.lanes.d31 = old0 ^ hdr.lanes.d31;
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 ^ hdr.lanes.d32);
        hdr.lanes.d32 = old0 ^ hdr.lanes.d32;
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 ^ hdr.lanes.d33);
        hdr.lanes.d33 = old0 ^ hdr.lanes.d33;
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 ^ hdr.lanes.d34);
        hdr.lanes.d34 = old0 ^ hdr.lanes.d34;
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 ^ hdr.lanes.d35);
        hdr.lanes.d35 = old0 ^ hdr.lanes.d35;
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 ^ hdr.lanes.d36);
        hdr.lanes.d36 = old0 ^ hdr.lanes.d36;
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 ^ hdr.lanes.d37);
        hdr.lanes.d37 = old0 ^ hdr.lanes.d37;
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 ^ hdr.lanes.d38);
        hdr.lanes.d38 = old0 ^ hdr.lanes.d38;
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 ^ hdr.lanes.d39);
        hdr.lanes.d39 = old0 ^ hdr.lanes.d39;
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 ^ hdr.lanes.d40);
        hdr.lanes.d40 = old0 ^ hdr.lanes.d40;
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 ^ hdr.lanes.d41);
        hdr.lanes.d41 = old0 ^ hdr.lanes.d41;
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 ^ hdr.lanes.d42);
        hdr.lanes.d42 = old0 ^ hdr.lanes.d42;
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 ^ hdr.lanes.d43);
        hdr.lanes.d43 = old0 ^ hdr.lanes.d43;
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 ^ hdr.lanes.d44);
        hdr.lanes.d44 = old0 ^ hdr.lanes.d44;
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 ^ hdr.lanes.d45);
        hdr.lanes.d45 = old0 ^ hdr.lanes.d45;
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 ^ hdr.lanes.d46);
        hdr.lanes.d46 = old0 ^ hdr.lanes.d46;
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 ^ hdr.lanes.d47);
        hdr.lanes.d47 = old0 ^ hdr.lanes.d47;
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 ^ hdr.lanes.d48);
        hdr.lanes.d48 = old0 ^ hdr.lanes.d48;
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 ^ hdr.lanes.d49);
        hdr.lanes.d49 = old0 ^ hdr.lanes.d49;
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 ^ hdr.lanes.d50);
        hdr.lanes.d50 = old0 ^ hdr.lanes.d50;
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 ^ hdr.lanes.d51);
        hdr.lanes.d51 = old0 ^ hdr.lanes.d51;
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 ^ hdr.lanes.d52);
        hdr.lanes.d52 = old0 ^ hdr.lanes.d52;
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 ^ hdr.lanes.d53);
        hdr.lanes.d53 = old0 ^ hdr.lanes.d53;
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 ^ hdr.lanes.d54);
        hdr.lanes.d54 = old0 ^ hdr.lanes.d54;
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 ^ hdr.lanes.d55);
        hdr.lanes.d55 = old0 ^ hdr.lanes.d55;
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 ^ hdr.lanes.d56);
        hdr.lanes.d56 = old0 ^ hdr.lanes.d56;
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 ^ hdr.lanes.d57);
        hdr.lanes.d57 = old0 ^ hdr.lanes.d57;
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 ^ hdr.lanes.d58);
        hdr.lanes.d58 = old0 ^ hdr.lanes.d58;
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 ^ hdr.lanes.d59);
        hdr.lanes.d59 = old0 ^ hdr.lanes.d59;
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 ^ hdr.lanes.d60);
        hdr.lanes.d60 = old0 ^ hdr.lanes.d60;
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 ^ hdr.lanes.d61);
        hdr.lanes.d61 = old0 ^ hdr.lanes.d61;
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 ^ hdr.lanes.d62);
        hdr.lanes.d62 = old0 ^ hdr.lanes.d62;
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 ^ hdr.lanes.d63);
        hdr.lanes.d63 = old0 ^ hdr.lanes.d63;
    }

    @hidden
    action exponent_raise() {
        bit<8> old0;
        exponent_exponent.read(old0, meta.index);
        exponent_exponent.write(meta.index, old0 > hdr.netfold.exp_next ? old0 : hdr.netfold.exp_next);
    }

    @hidden
    action contributors_add() {
        bit<32> old0;
        contributors_children.read(old0, meta.index);
        contributors_children.write(meta.index, old0 | meta.share);
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
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 + hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 + hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 + hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 + hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 + hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 + hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 + hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 + hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 + hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 + hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 + hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 + hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 + hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 + hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 + hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 + hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 + hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 + hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 + hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 + hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 + hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 + hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 + hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 + hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 + hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 + hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 + hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 + hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 + hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 + hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 + hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 + hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 + hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 + hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 + hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 + hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 + hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 + hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 + hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 + hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 + hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 + hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 + hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 + hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 + hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 + hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 + hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 + hdr.lanes.d63);
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15);
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, (int<32>)(old0) < (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63);
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
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d08) ? old0 : hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d09) ? old0 : hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d10) ? old0 : hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d11) ? old0 : hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d12) ? old0 : hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d13) ? old0 : hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d14) ? old0 : hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d15) ? old0 : hdr.lanes.d15);
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d16) ? old0 : hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d17) ? old0 : hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d18) ? old0 : hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d19) ? old0 : hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d20) ? old0 : hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d21) ? old0 : hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d22) ? old0 : hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d23) ? old0 : hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d24) ? old0 : hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d25) ? old0 : hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d26) ? old0 : hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d27) ? old0 : hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d28) ? old0 : hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d29) ? old0 : hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d30) ? old0 : hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d31) ? old0 : hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d32) ? old0 : hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d33) ? old0 : hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d34) ? old0 : hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d35) ? old0 : hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d36) ? old0 : hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d37) ? old0 : hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d38) ? old0 : hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d39) ? old0 : hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d40) ? old0 : hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d41) ? old0 : hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d42) ? old0 : hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d43) ? old0 : hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d44) ? old0 : hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d45) ? old0 : hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d46) ? old0 : hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d47) ? old0 : hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d48) ? old0 : hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d49) ? old0 : hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d50) ? old0 : hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d51) ? old0 : hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d52) ? old0 : hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d53) ? old0 : hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d54) ? old0 : hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d55) ? old0 : hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d56) ? old0 : hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d57) ? old0 : hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d58) ? old0 : hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d59) ? old0 : hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d60) ? old0 : hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d61) ? old0 : hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d62) ? old0 : hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, (int<32>)(old0) > (int<32>)(hdr.lanes.d63) ? old0 : hdr.lanes.d63);
    }

    @hidden
    action sum_and() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 & hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 & hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 & hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 & hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 & hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 & hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 & hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 & hdr.lanes.d07);
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 & hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 & hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 & hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 & hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 & hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 & hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 & hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 & hdr.lanes.d15);
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 & hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 & hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 & hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 & hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 & hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 & hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 & hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 & hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 & hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 & hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 & hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 & hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 & hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 & hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 & hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 & hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 & hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 & hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 & hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 & hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 & hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 & hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 & hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 & hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 & hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 & hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 & hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 & hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 & hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 & hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 & hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 & hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 & hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 & hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 & hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 & hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 & hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 & hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 & hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 & hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 & hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 & hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 & hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 & hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 & hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 & hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 & hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 & hdr.lanes.d63);
    }

    @hidden
    action sum_or() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 | hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 | hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 | hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 | hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 | hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 | hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 | hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 | hdr.lanes.d07);
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 | hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 | hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 | hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 | hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 | hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 | hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 | hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 | hdr.lanes.d15);
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 | hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 | hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 | hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 | hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 | hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 | hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 | hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 | hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 | hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 | hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 | hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 | hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 | hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 | hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 | hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 | hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 | hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 | hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 | hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 | hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 | hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 | hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 | hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 | hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 | hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 | hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 | hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 | hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 | hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 | hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 | hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 | hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 | hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 | hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 | hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 | hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 | hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 | hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 | hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 | hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 | hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 | hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 | hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 | hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 | hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 | hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 | hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 | hdr.lanes.d63);
    }

    @hidden
    action sum_xor() {
        bit<32> old0;
        sum_00.read(old0, meta.index);
        sum_00.write(meta.index, old0 ^ hdr.lanes.d00);
        sum_01.read(old0, meta.index);
        sum_01.write(meta.index, old0 ^ hdr.lanes.d01);
        sum_02.read(old0, meta.index);
        sum_02.write(meta.index, old0 ^ hdr.lanes.d02);
        sum_03.read(old0, meta.index);
        sum_03.write(meta.index, old0 ^ hdr.lanes.d03);
        sum_04.read(old0, meta.index);
        sum_04.write(meta.index, old0 ^ hdr.lanes.d04);
        sum_05.read(old0, meta.index);
        sum_05.write(meta.index, old0 ^ hdr.lanes.d05);
        sum_06.read(old0, meta.index);
        sum_06.write(meta.index, old0 ^ hdr.lanes.d06);
        sum_07.read(old0, meta.index);
        sum_07.write(meta.index, old0 ^ hdr.lanes.d07);
        sum_08.read(old0, meta.index);
        sum_08.write(meta.index, old0 ^ hdr.lanes.d08);
        sum_09.read(old0, meta.index);
        sum_09.write(meta.index, old0 ^ hdr.lanes.d09);
        sum_10.read(old0, meta.index);
        sum_10.write(meta.index, old0 ^ hdr.lanes.d10);
        sum_11.read(old0, meta.index);
        sum_11.write(meta.index, old0 ^ hdr.lanes.d11);
        sum_12.read(old0, meta.index);
        sum_12.write(meta.index, old0 ^ hdr.lanes.d12);
        sum_13.read(old0, meta.index);
        sum_13.write(meta.index, old0 ^ hdr.lanes.d13);
        sum_14.read(old0, meta.index);
        sum_14.write(meta.index, old0 ^ hdr.lanes.d14);
        sum_15.read(old0, meta.index);
        sum_15.write(meta.index, old0 ^ hdr.lanes.d15);
        sum_16.read(old0, meta.index);
        sum_16.write(meta.index, old0 ^ hdr.lanes.d16);
        sum_17.read(old0, meta.index);
        sum_17.write(meta.index, old0 ^ hdr.lanes.d17);
        sum_18.read(old0, meta.index);
        sum_18.write(meta.index, old0 ^ hdr.lanes.d18);
        sum_19.read(old0, meta.index);
        sum_19.write(meta.index, old0 ^ hdr.lanes.d19);
        sum_20.read(old0, meta.index);
        sum_20.write(meta.index, old0 ^ hdr.lanes.d20);
        sum_21.read(old0, meta.index);
        sum_21.write(meta.index, old0 ^ hdr.lanes.d21);
        sum_22.read(old0, meta.index);
        sum_22.write(meta.index, old0 ^ hdr.lanes.d22);
        sum_23.read(old0, meta.index);
        sum_23.write(meta.index, old0 ^ hdr.lanes.d23);
        sum_24.read(old0, meta.index);
        sum_24.write(meta.index, old0 ^ hdr.lanes.d24);
        sum_25.read(old0, meta.index);
        sum_25.write(meta.index, old0 ^ hdr.lanes.d25);
        sum_26.read(old0, meta.index);
        sum_26.write(meta.index, old0 ^ hdr.lanes.d26);
        sum_27.read(old0, meta.index);
        sum_27.write(meta.index, old0 ^ hdr.lanes.d27);
        sum_28.read(old0, meta.index);
        sum_28.write(meta.index, old0 ^ hdr.lanes.d28);
        sum_29.read(old0, meta.index);
        sum_29.write(meta.index, old0 ^ hdr.lanes.d29);
        sum_30.read(old0, meta.index);
        sum_30.write(meta.index, old0 ^ hdr.lanes.d30);
        sum_31.read(old0, meta.index);
        sum_31.write(meta.index, old0 ^ hdr.lanes.d31);
        sum_32.read(old0, meta.index);
        sum_32.write(meta.index, old0 ^ hdr.lanes.d32);
        sum_33.read(old0, meta.index);
        sum_33.write(meta.index, old0 ^ hdr.lanes.d33);
        sum_34.read(old0, meta.index);
        sum_34.write(meta.index, old0 ^ hdr.lanes.d34);
        sum_35.read(old0, meta.index);
        sum_35.write(meta.index, old0 ^ hdr.lanes.d35);
        sum_36.read(old0, meta.index);
        sum_36.write(meta.index, old0 ^ hdr.lanes.d36);
        sum_37.read(old0, meta.index);
        sum_37.write(meta.index, old0 ^ hdr.lanes.d37);
        sum_38.read(old0, meta.index);
        sum_38.write(meta.index, old0 ^ hdr.lanes.d38);
        sum_39.read(old0, meta.index);
        sum_39.write(meta.index, old0 ^ hdr.lanes.d39);
        sum_40.read(old0, meta.index);
        sum_40.write(meta.index, old0 ^ hdr.lanes.d40);
        sum_41.read(old0, meta.index);
        sum_41.write(meta.index, old0 ^ hdr.lanes.d41);
        sum_42.read(old0, meta.index);
        sum_42.write(meta.index, old0 ^ hdr.lanes.d42);
        sum_43.read(old0, meta.index);
        sum_43.write(meta.index, old0 ^ hdr.lanes.d43);
        sum_44.read(old0, meta.index);
        sum_44.write(meta.index, old0 ^ hdr.lanes.d44);
        sum_45.read(old0, meta.index);
        sum_45.write(meta.index, old0 ^ hdr.lanes.d45);
        sum_46.read(old0, meta.index);
        sum_46.write(meta.index, old0 ^ hdr.lanes.d46);
        sum_47.read(old0, meta.index);
        sum_47.write(meta.index, old0 ^ hdr.lanes.d47);
        sum_48.read(old0, meta.index);
        sum_48.write(meta.index, old0 ^ hdr.lanes.d48);
        sum_49.read(old0, meta.index);
        sum_49.write(meta.index, old0 ^ hdr.lanes.d49);
        sum_50.read(old0, meta.index);
        sum_50.write(meta.index, old0 ^ hdr.lanes.d50);
        sum_51.read(old0, meta.index);
        sum_51.write(meta.index, old0 ^ hdr.lanes.d51);
        sum_52.read(old0, meta.index);
        sum_52.write(meta.index, old0 ^ hdr.lanes.d52);
        sum_53.read(old0, meta.index);
        sum_53.write(meta.index, old0 ^ hdr.lanes.d53);
        sum_54.read(old0, meta.index);
        sum_54.write(meta.index, old0 ^ hdr.lanes.d54);
        sum_55.read(old0, meta.index);
        sum_55.write(meta.index, old0 ^ hdr.lanes.d55);
        sum_56.read(old0, meta.index);
        sum_56.write(meta.index, old0 ^ hdr.lanes.d56);
        sum_57.read(old0, meta.index);
        sum_57.write(meta.index, old0 ^ hdr.lanes.d57);
        sum_58.read(old0, meta.index);
        sum_58.write(meta.index, old0 ^ hdr.lanes.d58);
        sum_59.read(old0, meta.index);
        sum_59.write(meta.index, old0 ^ hdr.lanes.d59);
        sum_60.read(old0, meta.index);
        sum_60.write(meta.index, old0 ^ hdr.lanes.d60);
        sum_61.read(old0, meta.index);
        sum_61.write(meta.index, old0 ^ hdr.lanes.d61);
        sum_62.read(old0, meta.index);
        sum_62.write(meta.index, old0 ^ hdr.lanes.d62);
        sum_63.read(old0, meta.index);
        sum_63.write(meta.index, old0 ^ hdr.lanes.d63);
    }

    @id(0x01000001)
    action admit(@id(1) bit<32> base, @id(2) bit<32> bit_mask, @id(3) bit<32> others, @id(4) bit<16> world, @id(5) bit<16> group, @id(6) bit<16> first, @id(7) bit<16> last) {
        meta.index = base;
        meta.bit_mask = bit_mask;
        meta.others = others;
        meta.world = world;
        meta.group = group;
        meta.first = first;
        meta.last = last;
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

    @id(0x01000007)
    action admit_below(@id(1) bit<32> base, @id(2) bit<32> bit_mask, @id(3) bit<32> others, @id(4) bit<16> world, @id(5) bit<16> group, @id(6) bit<16> up, @id(7) bit<16> workers, @id(8) bit<16> first, @id(9) bit<16> last) {
        meta.index = base;
        meta.bit_mask = bit_mask;
        meta.others = others;
        meta.world = world;
        meta.group = group;
        meta.up = up;
        meta.workers = workers;
        meta.first = first;
        meta.last = last;
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
            challenge;
            admit_below;
            admit_result;
        }
        const default_action = deny(0x5);
        size = 3170;
    }

    apply {
        mark_to_drop(standard_metadata);
        meta.port = (bit<16>)standard_metadata.ingress_port;
        if (hdr.netfold.isValid()) {
            if (standard_metadata.checksum_error == 1w1) {
                meta.reason = 8w0x1;
            } else if (hdr.netfold.version == 4w0x2) {
                if ((hdr.lanes.isValid() && (((standard_metadata.packet_length == 32w0x14a) && (hdr.ipv4.total_len == 16w0x13c)) && (hdr.udp.length == 16w0x128))) || ((!(hdr.lanes.isValid()) && ((hdr.netfold.flags & 8w0x80) == 8w0x80)) && (((standard_metadata.packet_length == 32w0x4a) && (hdr.ipv4.total_len == 16w0x3c)) && (hdr.udp.length == 16w0x28)))) {
                    if (!(((((((hdr.netfold.op == 4w0x0) || (hdr.netfold.op == 4w0x1)) || (hdr.netfold.op == 4w0x2)) || (hdr.netfold.op == 4w0x3)) || (hdr.netfold.op == 4w0x4)) || (hdr.netfold.op == 4w0x5)))) {
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
                    hdr.lanes.d16 = 0;
                    hdr.lanes.d17 = 0;
                    hdr.lanes.d18 = 0;
                    hdr.lanes.d19 = 0;
                    hdr.lanes.d20 = 0;
                    hdr.lanes.d21 = 0;
                    hdr.lanes.d22 = 0;
                    hdr.lanes.d23 = 0;
                    hdr.lanes.d24 = 0;
                    hdr.lanes.d25 = 0;
                    hdr.lanes.d26 = 0;
                    hdr.lanes.d27 = 0;
                    hdr.lanes.d28 = 0;
                    hdr.lanes.d29 = 0;
                    hdr.lanes.d30 = 0;
                    hdr.lanes.d31 = 0;
                    hdr.lanes.d32 = 0;
                    hdr.lanes.d33 = 0;
                    hdr.lanes.d34 = 0;
                    hdr.lanes.d35 = 0;
                    hdr.lanes.d36 = 0;
                    hdr.lanes.d37 = 0;
                    hdr.lanes.d38 = 0;
                    hdr.lanes.d39 = 0;
                    hdr.lanes.d40 = 0;
                    hdr.lanes.d41 = 0;
                    hdr.lanes.d42 = 0;
                    hdr.lanes.d43 = 0;
                    hdr.lanes.d44 = 0;
                    hdr.lanes.d45 = 0;
                    hdr.lanes.d46 = 0;
                    hdr.lanes.d47 = 0;
                    hdr.lanes.d48 = 0;
                    hdr.lanes.d49 = 0;
                    hdr.lanes.d50 = 0;
                    hdr.lanes.d51 = 0;
                    hdr.lanes.d52 = 0;
                    hdr.lanes.d53 = 0;
                    hdr.lanes.d54 = 0;
                    hdr.lanes.d55 = 0;
                    hdr.lanes.d56 = 0;
                    hdr.lanes.d57 = 0;
                    hdr.lanes.d58 = 0;
                    hdr.lanes.d59 = 0;
                    hdr.lanes.d60 = 0;
                    hdr.lanes.d61 = 0;
                    hdr.lanes.d62 = 0;
                    hdr.lanes.d63 = 0;
                    hdr.netfold.flags = hdr.netfold.flags & 8w0x7f;
                    hdr.udp.length = 16w0x128;
                    hdr.ipv4.total_len = 16w0x13c;
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
                        contributors_store();
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
                                contributors_read_out();
                            } else {
                                contributors_store_out();
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
                        hdr.udp.length = 16w0x28;
                        hdr.ipv4.total_len = 16w0x3c;
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
                            contributors_read_out();
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
                                if ((hdr.netfold.count == 16w0x0) && hdr.lanes.isValid()) {
                                    hdr.lanes.setInvalid();
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                    hdr.udp.length = 16w0x28;
                                    hdr.ipv4.total_len = 16w0x3c;
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x8;
                                }
                                meta.answer = 8w0x2;
                                standard_metadata.mcast_grp = meta.up;
                                answers.count(32w0x3);
                            } else {
                                hdr.netfold.kind = 4w0x2;
                                meta.reply = 8w0x1;
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
                            contributors_add_out();
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
                                if ((hdr.netfold.count == 16w0x0) && hdr.lanes.isValid()) {
                                    hdr.lanes.setInvalid();
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                    hdr.udp.length = 16w0x28;
                                    hdr.ipv4.total_len = 16w0x3c;
                                    hdr.netfold.flags = hdr.netfold.flags | 8w0x8;
                                }
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
                            hdr.udp.length = 16w0x28;
                            hdr.ipv4.total_len = 16w0x3c;
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
                    hdr.udp.length = 16w0x28;
                    hdr.ipv4.total_len = 16w0x3c;
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
                        contributors_read_out();
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
                            if ((hdr.netfold.count == 16w0x0) && hdr.lanes.isValid()) {
                                hdr.lanes.setInvalid();
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                                hdr.udp.length = 16w0x28;
                                hdr.ipv4.total_len = 16w0x3c;
                                hdr.netfold.flags = hdr.netfold.flags | 8w0x8;
                            }
                            meta.answer = 8w0x2;
                            standard_metadata.mcast_grp = meta.up;
                            answers.count(32w0x3);
                        } else {
                            hdr.netfold.kind = 4w0x2;
                            meta.reply = 8w0x1;
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
                            hdr.udp.length = 16w0x28;
                            hdr.ipv4.total_len = 16w0x3c;
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
                        contributors_store_out();
                        tally_store_out();
                        hdr.netfold.count = (bit<16>)(meta.tally);
                        if (hdr.lanes.isValid() && (meta.share != 32w0x0)) {
                            sum_store_out();
                        } else {
                            sum_clear();
                        }
                    } else {
                        exponent_raise_out();
                        contributors_add_out();
                        tally_add_out();
                        hdr.netfold.count = (bit<16>)(meta.tally);
                        if (hdr.lanes.isValid()) {
                            if (meta.share != 32w0x0) {
                                if (hdr.netfold.op == 4w0x0) {
                                    sum_sum_out();
                                } else if (hdr.netfold.op == 4w0x1) {
                                    sum_min_out();
                                } else if (hdr.netfold.op == 4w0x2) {
                                    sum_max_out();
                                } else if (hdr.netfold.op == 4w0x3) {
                                    sum_and_out();
                                } else if (hdr.netfold.op == 4w0x4) {
                                    sum_or_out();
                                } else {
                                    sum_xor_out();
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
                        if ((hdr.netfold.count == 16w0x0) && hdr.lanes.isValid()) {
                            hdr.lanes.setInvalid();
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                            hdr.udp.length = 16w0x28;
                            hdr.ipv4.total_len = 16w0x3c;
                            hdr.netfold.flags = hdr.netfold.flags | 8w0x8;
                        }
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
                    contributors_store();
                    tally_store();
                    if (hdr.lanes.isValid() && (meta.share != 32w0x0)) {
                        sum_store();
                    } else {
                        sum_clear();
                    }
                } else {
                    exponent_raise();
                    contributors_add();
                    tally_add();
                    if (hdr.lanes.isValid()) {
                        if (meta.share != 32w0x0) {
                            if (hdr.netfold.op == 4w0x0) {
                                sum_sum();
                            } else if (hdr.netfold.op == 4w0x1) {
                                sum_min();
                            } else if (hdr.netfold.op == 4w0x2) {
                                sum_max();
                            } else if (hdr.netfold.op == 4w0x3) {
                                sum_and();
                            } else if (hdr.netfold.op == 4w0x4) {
                                sum_or();
                            } else {
                                sum_xor();
                            }
                        }
                    }
                }
                if ((meta.reply == 8w0x1) && ((hdr.netfold.owner != 16w0x0) && ((int<16>)(16w0x0) > (int<16>)((hdr.netfold.owner - meta.first) | (meta.last - hdr.netfold.owner))))) {
                    hdr.lanes.setInvalid();
                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                    hdr.udp.length = 16w0x28;
                    hdr.ipv4.total_len = 16w0x3c;
                }
            }
        }
        if (meta.answer == 8w0x1) {
            hdr.netfold.kind = 4w0x5;
            hdr.netfold.reason = meta.reason;
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            hdr.udp.length = 16w0x28;
            hdr.ipv4.total_len = 16w0x3c;
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
        } else if (meta.answer == 8w0x3) {
            hdr.netfold.chunk = meta.others;
            hdr.netfold.bitmap = meta.bit_mask;
            hdr.netfold.kind = 4w0x5;
            hdr.netfold.reason = meta.reason;
            hdr.lanes.setInvalid();
            hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
            hdr.udp.length = 16w0x28;
            hdr.ipv4.total_len = 16w0x3c;
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

    @id(0x0100000c)
    action members(@id(1) bit<16> first, @id(2) bit<16> last) {
        meta.first = first;
        meta.last = last;
    }

    @id(0x0100000d)
    action every_member() {
        meta.first = 16w0x1;
        meta.last = 16w0x8000;
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
        size = 528;
    }

    @id(0x02000004)
    table receiver {
        key = {
            meta.port: exact @id(1) @name("instance");
        }
        actions = {
            members;
            every_member;
        }
        const default_action = every_member();
        size = 512;
    }

    apply {
        meta.port = standard_metadata.egress_rid;
        if (meta.port != 16w0x0) {
            child.apply();
        }
        if ((standard_metadata.enq_qdepth > 19w0xf) && (hdr.ipv4.ecn != 2w0x0)) {
            hdr.ipv4.ecn = 2w0x3;
        }
        if (hdr.netfold.owner != 16w0x0) {
            meta.port = standard_metadata.egress_rid;
            if ((meta.port != 16w0x0) && (hdr.netfold.kind == 4w0x2)) {
                receiver.apply();
                if ((hdr.netfold.owner != 16w0x0) && ((int<16>)(16w0x0) > (int<16>)((hdr.netfold.owner - meta.first) | (meta.last - hdr.netfold.owner)))) {
                    hdr.lanes.setInvalid();
                    hdr.netfold.flags = hdr.netfold.flags | 8w0x80;
                    hdr.udp.length = 16w0x28;
                    hdr.ipv4.total_len = 16w0x3c;
                }
            }
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
