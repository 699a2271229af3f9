-- Wireshark dissector of Netfold packets: the header, a summary of the lanes, and expert information for malformed packets.
--
--   wireshark -X lua_script:netfold.lua capture.pcap
--   tshark -X lua_script:netfold.lua -V -r capture.pcap
--
-- or copy the file to Wireshark's folder of personal Lua plugins (Help > About Wireshark > Folders). Packets to or from Netfold's UDP port
-- are dissected, and those on other ports that have a consistent header (a heuristic dissector, which can be disabled under
-- Analyze > Enabled Protocols). The outer headers are Ethernet, IPv4 and UDP in every capture. docs/protocol.md describes the protocol.

-- definitions: generated from netfold-wire by `cargo xtask tidy --fix`
local UDP_PORT = 20038
local VERSION = 2
local HEADER_LEN = 32
-- The least number of lane words that a pipeline may have.
local LANE_WORDS_MIN = 16
-- Offset and width in bits; the bytes that the field lies in, and its mask there.
local FIELDS = {
    { name = "version", offset = 0, bits = 4, first = 0, bytes = 1, mask = 0xf0,
      doc = "protocol version, 2" },
    { name = "kind", offset = 4, bits = 4, first = 0, bytes = 1, mask = 0xf,
      doc = "packet kind" },
    { name = "flags", offset = 8, bits = 8, first = 1, bytes = 1, mask = nil,
      doc = "flag bits" },
    { name = "op", offset = 16, bits = 4, first = 2, bytes = 1, mask = 0xf0,
      doc = "lane operation: what the switch does with the lanes; see Lane operations" },
    { name = "class", offset = 20, bits = 4, first = 2, bytes = 1, mask = 0xf,
      doc = "importance class, 0 lowest; chooses queue and trimming depth" },
    { name = "reason", offset = 24, bits = 8, first = 3, bytes = 1, mask = nil,
      doc = "why a REJECT was sent; 0 in every other kind" },
    { name = "job", offset = 32, bits = 16, first = 4, bytes = 2, mask = nil,
      doc = "job number on this switch" },
    { name = "slot", offset = 48, bits = 15, first = 6, bytes = 2, mask = 0xfffe,
      doc = "slot, relative to the job's range" },
    { name = "set", offset = 63, bits = 1, first = 7, bytes = 1, mask = 0x1,
      doc = "which of the slot's two sets" },
    { name = "epoch", offset = 64, bits = 32, first = 8, bytes = 4, mask = nil,
      doc = "epoch of the job's membership" },
    { name = "key", offset = 96, bits = 32, first = 12, bytes = 4, mask = nil,
      doc = "job key, given at admission" },
    { name = "chunk", offset = 128, bits = 32, first = 16, bytes = 4, mask = nil,
      doc = "serial number of the chunk in the job's stream" },
    { name = "bitmap", offset = 160, bits = 32, first = 20, bytes = 4, mask = nil,
      doc = "children whose contribution is in the lanes; bit r is child r" },
    { name = "count", offset = 192, bits = 16, first = 24, bytes = 2, mask = nil,
      doc = "workers whose contribution is in the lanes" },
    { name = "exp", offset = 208, bits = 8, first = 26, bytes = 1, mask = nil,
      doc = "block exponent of the lanes in this packet, biased as in binary32" },
    { name = "exp_next", offset = 216, bits = 8, first = 27, bytes = 1, mask = nil,
      doc = "largest block exponent proposed for the chunk one look-ahead later; 255: not finite" },
    { name = "owner", offset = 224, bits = 16, first = 28, bytes = 2, mask = nil,
      doc = "rank + 1 of the only member that receives the lanes of the result; 0: all do" },
    { name = "reserved", offset = 240, bits = 16, first = 30, bytes = 2, mask = nil,
      doc = "sent as 0, and not read" },
}
local KINDS = { [1] = "data", [2] = "result", [3] = "close", [4] = "stale", [5] = "reject", [6] = "probe", [7] = "advance", [8] = "heard" }
local OPS = { [0] = "sum", [1] = "min", [2] = "max", [3] = "and", [4] = "or", [5] = "xor", [6] = "sum16", [7] = "min16", [8] = "max16", [9] = "sum8", [10] = "min8", [11] = "max8" }
local REASONS = { [0] = "none", [1] = "not_netfold", [2] = "length", [3] = "version", [4] = "kind", [5] = "unknown_job", [6] = "spoofed", [7] = "key", [8] = "epoch", [9] = "slot", [10] = "stale", [11] = "duplicate", [12] = "job_ended", [13] = "unexpected", [14] = "path" }
local FLAGS = {
    { name = "resend", mask = 0x01 },
    { name = "congestion", mask = 0x02 },
    { name = "droppable", mask = 0x04 },
    { name = "trimmed", mask = 0x08 },
    { name = "partial", mask = 0x10 },
    { name = "saturated", mask = 0x20 },
    { name = "non_finite", mask = 0x40 },
    { name = "bare", mask = 0x80 },
}
-- definitions: end

-- How values are shown where not in decimal.
local HEXADECIMAL = { flags = true, epoch = true, key = true, bitmap = true }
local NAMES = { kind = KINDS, op = OPS, reason = REASONS }

-- Lanes that are listed; the summary covers all.
local LANES_LISTED = 16

local netfold = Proto("netfold", "Netfold in-network aggregation")
local fields = {}

local header_fields = {}
for _, definition in ipairs(FIELDS) do
    local make = ({ [1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32 })[definition.bytes]
    local shown = HEXADECIMAL[definition.name] and base.HEX or base.DEC
    local name = "netfold." .. definition.name
    local field = make(name, definition.name, shown, NAMES[definition.name], definition.mask, definition.doc)
    header_fields[definition.name] = field
    fields[#fields + 1] = field
end

local flag_fields = {}
for _, flag in ipairs(FLAGS) do
    local field = ProtoField.bool("netfold.flags." .. flag.name, flag.name, 8, nil, flag.mask)
    flag_fields[#flag_fields + 1] = field
    fields[#fields + 1] = field
end

local lane_fields = {
    all = ProtoField.bytes("netfold.lanes", "Lanes"),
    words = ProtoField.uint32("netfold.lanes.words", "Words of 32 bits", base.DEC),
    nonzero = ProtoField.uint32("netfold.lanes.nonzero", "Words that are not 0", base.DEC),
    least = ProtoField.int32("netfold.lanes.min", "Least, as 32-bit two's complement", base.DEC),
    greatest = ProtoField.int32("netfold.lanes.max", "Greatest, as 32-bit two's complement", base.DEC),
    lane = ProtoField.int32("netfold.lane", "Lane", base.DEC),
}
local child_field = ProtoField.uint8("netfold.child", "Child", base.DEC, nil, nil, "a child whose bit in the bitmap is set")
for _, field in pairs(lane_fields) do
    fields[#fields + 1] = field
end
fields[#fields + 1] = child_field
netfold.fields = fields

local function malformed(name, text)
    return ProtoExpert.new("netfold.malformed." .. name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local function notice(name, text, severity)
    return ProtoExpert.new("netfold.notice." .. name, text, expert.group.SEQUENCE, severity)
end

local experts = {
    truncated = malformed("truncated", "Shorter than the header"),
    version = malformed("version", "Unknown protocol version"),
    kind = malformed("kind", "Unknown packet kind"),
    op = malformed("op", "Unknown lane operation"),
    reason = malformed("reason", "Unknown reason"),
    length = malformed("length", "Length and the flag bare disagree"),
    unexpected_reason = malformed("unexpected_reason", "A reason in a packet that is not a REJECT"),
    reject = notice("reject", "The switch did not admit the packet", expert.severity.WARN),
    stale = notice("stale", "The slot holds a newer chunk", expert.severity.WARN),
    resend = notice("resend", "Retransmission", expert.severity.NOTE),
    congestion = notice("congestion", "Congestion experienced", expert.severity.NOTE),
    trimmed = notice("trimmed", "Lanes cut off by a congested switch", expert.severity.NOTE),
}
do
    local list = {}
    for _, entry in pairs(experts) do
        list[#list + 1] = entry
    end
    netfold.experts = list
end

local function flag_mask(name)
    for _, flag in ipairs(FLAGS) do
        if flag.name == name then
            return flag.mask
        end
    end
    error("no flag " .. name)
end
local BARE, RESEND, CONGESTION, TRIMMED = flag_mask("bare"), flag_mask("resend"), flag_mask("congestion"), flag_mask("trimmed")

local function code(names, wanted)
    for value, name in pairs(names) do
        if name == wanted then
            return value
        end
    end
    error("no code " .. wanted)
end
local REJECT, STALE = code(KINDS, "reject"), code(KINDS, "stale")

-- Whether a flag is set. Versions of Lua differ in their operators on bits, so this uses arithmetic.
local function is_set(value, mask)
    return math.floor(value / mask) % 2 == 1
end

-- The values of all header fields by name. The buffer holds a whole header.
local function read(buffer)
    local values = {}
    for _, definition in ipairs(FIELDS) do
        values[definition.name] = buffer(0, HEADER_LEN):bitfield(definition.offset, definition.bits)
    end
    return values
end

-- Names in `experts` of what is wrong with the packet.
local function problems(values, lane_bytes)
    local found = {}
    local function check(holds, name)
        if not holds then
            found[#found + 1] = name
        end
    end
    check(values.version == VERSION, "version")
    if values.version ~= VERSION then
        return found -- the rest of the header may mean something else
    end
    check(KINDS[values.kind], "kind")
    check(OPS[values.op], "op")
    check(REASONS[values.reason], "reason")
    check(values.reason == 0 or values.kind == REJECT, "unexpected_reason")
    local bare = is_set(values.flags, BARE)
    local whole = lane_bytes % 4 == 0 and lane_bytes >= LANE_WORDS_MIN * 4
    check((bare and lane_bytes == 0) or (not bare and whole), "length")
    return found
end

local function flag_names(value)
    local set = {}
    for _, flag in ipairs(FLAGS) do
        if is_set(value, flag.mask) then
            set[#set + 1] = flag.name
        end
    end
    return table.concat(set, "+")
end

local function children(bitmap)
    local list = {}
    for child = 0, 31 do
        if is_set(bitmap, 2 ^ child) then
            list[#list + 1] = child
        end
    end
    return list
end

-- What a block exponent, biased as in binary32, stands for.
local function exponent(value)
    if value == 0 then
        return "none, or a block of zeros"
    elseif value == 255 then
        return "not finite"
    end
    return string.format("2^%d", value - 127)
end

local function add_header(tree, buffer, values)
    for _, entry in ipairs(FIELDS) do
        local item = tree:add(header_fields[entry.name], buffer(entry.first, entry.bytes))
        if entry.name == "flags" then
            item:append_text(values.flags == 0 and " (none)" or " (" .. flag_names(values.flags) .. ")")
            for _, field in ipairs(flag_fields) do
                item:add(field, buffer(entry.first, entry.bytes))
            end
        elseif entry.name == "bitmap" then
            for _, child in ipairs(children(values.bitmap)) do
                item:add(child_field, buffer(entry.first, entry.bytes), child)
            end
        elseif entry.name == "exp" or entry.name == "exp_next" then
            item:append_text(" (" .. exponent(values[entry.name]) .. ")")
        end
    end
end

local function add_lanes(tree, buffer)
    local words = math.floor(buffer:len() / 4)
    local nonzero, least, greatest = 0, 0x7fffffff, -0x80000000
    for index = 0, words - 1 do
        local lane = buffer(index * 4, 4):int()
        nonzero = nonzero + (lane ~= 0 and 1 or 0)
        least, greatest = math.min(least, lane), math.max(greatest, lane)
    end
    local item = tree:add(lane_fields.all, buffer)
    item:set_text(string.format("Lanes: %d words, %d not 0", words, nonzero))
    item:add(lane_fields.words, buffer, words):set_generated()
    item:add(lane_fields.nonzero, buffer, nonzero):set_generated()
    if words > 0 then
        item:add(lane_fields.least, buffer, least):set_generated()
        item:add(lane_fields.greatest, buffer, greatest):set_generated()
    end
    for index = 0, math.min(words, LANES_LISTED) - 1 do
        item:add(lane_fields.lane, buffer(index * 4, 4)):prepend_text(string.format("[%d] ", index))
    end
end

local function add_notices(tree, values)
    if values.kind == REJECT then
        local reason = REASONS[values.reason] or tostring(values.reason)
        tree:add_proto_expert_info(experts.reject, "The switch did not admit the packet: " .. reason)
    elseif values.kind == STALE then
        tree:add_proto_expert_info(experts.stale)
    end
    if is_set(values.flags, RESEND) then
        tree:add_proto_expert_info(experts.resend)
    end
    if is_set(values.flags, CONGESTION) then
        tree:add_proto_expert_info(experts.congestion)
    end
    if is_set(values.flags, TRIMMED) then
        tree:add_proto_expert_info(experts.trimmed)
    end
end

-- One line for the list of packets.
local function summary(values, lane_bytes)
    local parts = {
        string.upper(KINDS[values.kind] or "kind " .. values.kind),
        string.format("job %d, slot %d/%d, chunk %d", values.job, values.slot, values.set, values.chunk),
    }
    if values.kind == REJECT then
        parts[1] = parts[1] .. " (" .. (REASONS[values.reason] or values.reason) .. ")"
    end
    if lane_bytes > 0 then
        parts[#parts + 1] = string.format("%s of %d words", OPS[values.op] or "op " .. values.op, math.floor(lane_bytes / 4))
    end
    if values.flags ~= 0 then
        parts[#parts + 1] = "[" .. flag_names(values.flags) .. "]"
    end
    return table.concat(parts, ", ")
end

function netfold.dissector(buffer, packet, root)
    packet.cols.protocol = "Netfold"
    local tree = root:add(netfold, buffer())
    if buffer:len() < HEADER_LEN then
        packet.cols.info = string.format("Truncated: %d bytes of a header of %d", buffer:len(), HEADER_LEN)
        tree:add_proto_expert_info(experts.truncated)
        return buffer:len()
    end
    local values = read(buffer)
    -- What was on the wire decides; a capture may have fewer bytes of it.
    local lane_bytes = buffer:reported_len() - HEADER_LEN
    packet.cols.info = summary(values, lane_bytes)
    tree:append_text(", " .. summary(values, lane_bytes))
    add_header(tree, buffer, values)
    if buffer:len() > HEADER_LEN then
        add_lanes(tree, buffer(HEADER_LEN))
    end
    local found = problems(values, lane_bytes)
    for _, name in ipairs(found) do
        tree:add_proto_expert_info(experts[name])
    end
    if #found == 0 then
        add_notices(tree, values)
    end
    return buffer:len()
end

DissectorTable.get("udp.port"):add(UDP_PORT, netfold)

-- Switches may listen on any port: dissects what has a header without contradictions.
netfold:register_heuristic("udp", function(buffer, packet, root)
    if buffer:len() < HEADER_LEN or #problems(read(buffer), buffer:reported_len() - HEADER_LEN) > 0 then
        return false
    end
    netfold.dissector(buffer, packet, root)
    return true
end)
