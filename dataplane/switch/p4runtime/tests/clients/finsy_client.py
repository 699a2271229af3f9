import asyncio, sys
from pathlib import Path
import finsy as fy
async def main():
    opts = fy.SwitchOptions(p4info=Path(sys.argv[2]), p4blob=Path(sys.argv[3]), initial_election_id=1<<66)
    async with fy.Switch('sw1', sys.argv[1], opts) as sw:
        print('primary', sw.is_primary)
        await sw.delete_all()
        g = fy.P4MulticastGroupEntry(1, replicas=[1,2])
        await sw.insert([g])
        print([x async for x in sw.read(fy.P4MulticastGroupEntry())])
        t = list(sw.p4info.tables)[0]; a=[a for a in t.actions]
        print(t.alias, [m.name for m in t.match_fields], [x.alias for x in a])
        deny=[x for x in a if x.alias=='deny'][0]
        e = fy.P4TableEntry(t.alias, match=fy.P4TableMatch(job=3), action=fy.P4TableAction('deny', **{deny.params and list(deny.params)[0].name: 2}), priority=10)
        await sw.insert([e])
        print([x async for x in sw.read(fy.P4TableEntry())])
        try:
            await sw.insert([e]); raise SystemExit('twice')
        except fy.P4ClientError as ex: print('refused', ex.code, ex.details and [d.canonical_code for d in ex.details.values()])
        r=list(sw.p4info.registers)[0]
        await sw.modify([fy.P4RegisterEntry(r.alias, index=1, data=3)])
        print([x.data async for x in sw.read(fy.P4RegisterEntry(r.alias))])
        await sw.delete_all()
        print([x async for x in sw.read(fy.P4TableEntry())], 'finsy ok')
asyncio.run(main())
