import sys
import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeClient
addr=sys.argv[1]
sh.setup(device_id=1, grpc_addr=addr, election_id=(1,0), config=sh.FwdPipeConfig(sys.argv[2], sys.argv[3]))
names=[t for t in sh.P4Objects(sh.P4Type.table)]
print([t.name for t in names])
t=names[0].name
m=sh.MulticastGroupEntry(1); m.add(1,1); m.add(2,2); m.insert()
n=[]
sh.MulticastGroupEntry(0).read(lambda e: n.append(e)); assert len(n)==1, n
try:
    m.insert(); raise SystemExit('inserted twice')
except Exception as e: print('refused:', str(e).strip().replace('\n',' | '))
c=[x for x in sh.P4Objects(sh.P4Type.counter)][0].name
k=[]
ce=sh.CounterEntry(c); ce.read(lambda e:k.append(e)); print('counter cells', len(k))
ce=sh.CounterEntry(c); ce.index=1; ce.packet_count=7; ce.modify()
ce=sh.CounterEntry(c); ce.index=1; [print('counter', x.packet_count) for x in ce.read()]
m.delete()
sh.teardown(); print('shell ok')
