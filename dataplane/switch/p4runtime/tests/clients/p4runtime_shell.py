"""Drives an empty switch by p4runtime-shell: ADDRESS P4INFO PROGRAM ADVANCE OLDER.

ADVANCE and OLDER are controller packets in hexadecimal: of slot 0, to chunk 9 and to chunk 3.
"""
import sys

import grpc
import p4runtime_sh.shell as sh
from p4.v1 import p4runtime_pb2
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeWriteException

address, p4info, program, advance, older = sys.argv[1:]
advance, older = bytes.fromhex(advance), bytes.fromhex(older)


def refused(code, call):
    """Checks that a write of one update fails with a canonical code."""
    try:
        call()
    except P4RuntimeWriteException as error:
        (_, found), = error.errors
        assert found.canonical_code == code.value[0], (code, found)
        assert found.message, "an error has a message"
        return
    raise SystemExit(f"expected {code}")


def entities(read):
    return list(read)


# Push. The shell compares what it reads back with nothing, so the names that it offers then are the check.
sh.setup(device_id=1, grpc_addr=address, election_id=(1, 0), config=sh.FwdPipeConfig(p4info, program))
assert sh.client.api_version().startswith("1."), sh.client.api_version()
tables = [table.name for table in sh.P4Objects(sh.P4Type.table)]
assert tables == ["IngressImpl.job"], tables

# Insert, read back, modify, delete; each error has its code.
entry = sh.TableEntry("job")(action="deny")
entry.match["job"] = "3"
entry.priority = 10
entry.action["reason"] = "2"
entry.insert()
refused(grpc.StatusCode.ALREADY_EXISTS, entry.insert)
entry.action["reason"] = "3"
entry.modify()
found, = entities(sh.TableEntry("job").read())
assert found.priority == 10 and found.match["job"].ternary.value == b"\x03", found
assert found.action["reason"].value == b"\x03", found
entry.delete()
refused(grpc.StatusCode.NOT_FOUND, entry.delete)
refused(grpc.StatusCode.NOT_FOUND, entry.modify)
assert entities(sh.TableEntry("job").read()) == []


# Wrong bytes: what the shell itself refuses to build is sent as a message.
def update(match=b"\x03", mask=b"\xff\xff", reason=b"\x02", priority=10, table=33554433):
    message = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
    written = message.entity.table_entry
    written.table_id, written.priority = table, priority
    field = written.match.add(field_id=3)
    field.ternary.value, field.ternary.mask = match, mask
    written.action.action.action_id = 16777219
    written.action.action.params.add(param_id=1, value=reason)
    return lambda: sh.client.write_update(message)


refused(grpc.StatusCode.OUT_OF_RANGE, update(match=b"\x01\x00\x00"))
refused(grpc.StatusCode.OUT_OF_RANGE, update(match=b""))
refused(grpc.StatusCode.OUT_OF_RANGE, update(reason=b"\x01\x00"))
refused(grpc.StatusCode.INVALID_ARGUMENT, update(match=b"\x03", mask=b"\xf0"))
refused(grpc.StatusCode.INVALID_ARGUMENT, update(mask=b"\x00"))
refused(grpc.StatusCode.INVALID_ARGUMENT, update(priority=0))
refused(grpc.StatusCode.NOT_FOUND, update(table=33554999))
update(match=b"\x00\x00\x00\x03", mask=b"\x00\xff\xff")()
found, = entities(sh.TableEntry("job").read())
assert found.match["job"].ternary.value == b"\x03", "shortest form"
found.delete()

# Multicast.
group = sh.MulticastGroupEntry(1)
group.add(1, 1)
group.add(2, 2)
group.insert()
refused(grpc.StatusCode.ALREADY_EXISTS, group.insert)
group.add(3, 1)
group.modify()
groups = []
sh.MulticastGroupEntry(0).read(groups.append)
assert len(groups) == 1 and len(groups[0].replicas) == 3, groups

# Counters.
counter = sh.CounterEntry("packets")
counter.index = 1
counter.packet_count = 7
counter.modify()
assert [cell.packet_count for cell in counter.read()] == [7]
assert len(entities(sh.CounterEntry("packets").read())) == 15

# Packets out and in. The shell's PacketOut requires controller headers; its stream does not.
packet_in = sh.PacketIn()


def exchange(payload):
    message = p4runtime_pb2.StreamMessageRequest()
    message.packet.payload = payload
    sh.client.stream_out_q.put(message)
    answers = []
    while not answers:
        answers = entities(packet_in.sniff(timeout=1))
    answer, = answers
    assert not answer.packet.metadata
    return answer.packet.payload


entry = sh.TableEntry("job")(action="admit_controller")
entry.match["port"] = "510"
entry.match["job"] = "0"
entry.priority = 70
entry.action["base"] = "0"
entry.insert()
answer = exchange(advance)
assert len(answer) == len(advance)
assert exchange(older) == answer, "what is stored is newer"
message = p4runtime_pb2.StreamMessageRequest()
message.packet.payload = b"1"
message.packet.metadata.add(metadata_id=1, value=b"\x01")
sh.client.stream_out_q.put(message)
error = sh.client.get_stream_packet("unknown", timeout=20).error
assert error.canonical_code == grpc.StatusCode.INVALID_ARGUMENT.value[0], error

# A lower election id: a backup reads, but does not write.
backup = P4RuntimeClient(1, address, (0, 5))
try:
    backup.write_update(p4runtime_pb2.Update())
    raise SystemExit("a backup wrote")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED, error
assert len(list(backup.get_p4info().tables)) == 1
backup.tear_down()

group.delete()
entry.delete()
sh.teardown()
print("shell ok")
