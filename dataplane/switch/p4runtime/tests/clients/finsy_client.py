"""Drives an empty switch by finsy: ADDRESS P4INFO PROGRAM ADVANCE OLDER, as for p4runtime_shell.py."""
import asyncio
import sys
from pathlib import Path

import finsy as fy
from finsy.proto import p4r

address, p4info, program, advance, older = sys.argv[1:]
advance, older = bytes.fromhex(advance), bytes.fromhex(older)

OPTIONS = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(program), initial_election_id=1 << 66)
CODE = fy.GRPCStatusCode


async def refused(code, call):
    """Checks that a write of one update fails with a canonical code."""
    try:
        await call
    except fy.P4ClientError as error:
        if error.code != CODE.UNKNOWN:
            assert error.code == code, (code, error)
            return
        found, = error.details.values()
        assert found.canonical_code == code, (code, found)
        return
    raise SystemExit(f"expected {code}")


async def all_of(switch, entity):
    return [found async for found in switch.read(entity)]


async def entries(switch):
    entry = fy.P4TableEntry(
        "job", match=fy.P4TableMatch(job=3), action=fy.P4TableAction("deny", reason=2), priority=10
    )
    await switch.insert([entry])
    await refused(CODE.ALREADY_EXISTS, switch.insert([entry]))
    found, = await all_of(switch, fy.P4TableEntry())
    assert found.priority == 10 and found.action.args == {"reason": 2}, found
    entry.action = fy.P4TableAction("deny", reason=3)
    await switch.modify([entry])
    found, = await all_of(switch, fy.P4TableEntry("job"))
    assert found.action.args == {"reason": 3}, found
    await switch.delete([entry])
    await refused(CODE.NOT_FOUND, switch.delete([entry]))
    # Wrong bytes, which finsy does not build itself.
    message = p4r.Update(type=p4r.Update.INSERT)
    message.entity.table_entry.table_id = 33554433
    message.entity.table_entry.priority = 10
    field = message.entity.table_entry.match.add(field_id=3)
    for value, mask, code in [
        (b"\x01\x00\x00", b"\xff\xff", CODE.OUT_OF_RANGE),
        (b"", b"\xff\xff", CODE.OUT_OF_RANGE),
        (b"\x03", b"\xf0", CODE.INVALID_ARGUMENT),
    ]:
        field.ternary.value, field.ternary.mask = value, mask
        action = message.entity.table_entry.action.action
        action.action_id = 16777219
        del action.params[:]
        action.params.add(param_id=1, value=b"\x02")
        await refused(code, switch.write([message]))
    assert await all_of(switch, fy.P4TableEntry()) == []


async def groups_and_cells(switch):
    group = fy.P4MulticastGroupEntry(1, replicas=[1, 2])
    await switch.insert([group])
    await refused(CODE.ALREADY_EXISTS, switch.insert([group]))
    found, = await all_of(switch, fy.P4MulticastGroupEntry())
    assert list(found.replicas) == [1, 2], found
    await switch.modify([fy.P4RegisterEntry("claim_chunk", index=1, data=3)])
    cells = await all_of(switch, fy.P4RegisterEntry("claim_chunk"))
    assert [cell.data for cell in cells] == [0, 3] + [0] * 6, cells
    await switch.modify([fy.P4CounterEntry("packets", index=2, data=fy.P4CounterData(packet_count=9))])
    cells = await all_of(switch, fy.P4CounterEntry("packets", index=2))
    assert [cell.packet_count for cell in cells] == [9], cells


async def packets(switch):
    admit = fy.P4TableEntry(
        "job",
        match=fy.P4TableMatch(port=510, job=0),
        action=fy.P4TableAction("admit_controller", base=0),
        priority=70,
    )
    await switch.insert([admit])
    arriving = switch.read_packets()
    answers = []
    for payload in [advance, older]:
        # The queue opens with the first wait; finsy's PacketOut requires controller headers.
        waiting = asyncio.ensure_future(anext(arriving))
        await asyncio.sleep(0)
        await switch._p4client.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=payload)))
        packet = await asyncio.wait_for(waiting, 20)
        assert packet.metadata == {}
        answers.append(packet.payload)
    assert len(answers[0]) == len(advance) and answers[0] == answers[1], answers


async def main():
    async with fy.Switch("primary", address, OPTIONS) as switch:
        assert switch.is_primary
        await switch.delete_all()
        await entries(switch)
        await groups_and_cells(switch)
        await packets(switch)
        # A wrong election id: the second is a backup, which reads and does not write.
        lower = OPTIONS(initial_election_id=7)
        async with fy.Switch("backup", address, lower) as backup:
            assert not backup.is_primary
            assert len(await all_of(backup, fy.P4TableEntry())) == 1
            await refused(CODE.PERMISSION_DENIED, backup.insert([fy.P4MulticastGroupEntry(2, replicas=[1])]))
        await switch.delete_all()
        assert await all_of(switch, fy.P4TableEntry()) == []
        assert await all_of(switch, fy.P4MulticastGroupEntry()) == []
    print("finsy ok")


asyncio.run(main())
