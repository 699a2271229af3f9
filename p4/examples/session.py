"""A P4Runtime session with an empty software switch: `session.py ADDRESS P4INFO PROGRAM`."""

import sys

import p4runtime_sh.shell as sh

address, p4info, program = sys.argv[1:]
sh.setup(device_id=1, grpc_addr=address, election_id=(1, 0), config=sh.FwdPipeConfig(p4info, program))

print("tables:", [table.name for table in sh.P4Objects(sh.P4Type.table)])
print("actions:", [action.name for action in sh.P4Objects(sh.P4Type.action)])

# Refuse the packets of job 3, with reason 2, before any other entry applies.
entry = sh.TableEntry("job")(action="deny")
entry.match["job"] = "3"
entry.action["reason"] = "2"
entry.priority = 10
entry.insert()
for found in sh.TableEntry("job").read():
    print("entry of priority", found.priority, "reason", found.action["reason"].value[0])

# A packet that the switch drops is counted by its reason.
counts = [cell.packet_count for cell in sh.CounterEntry("packets").read()]
print(len(counts), "reasons,", sum(counts), "packets")

entry.delete()
print("entries left:", len(list(sh.TableEntry("job").read())))
sh.teardown()
