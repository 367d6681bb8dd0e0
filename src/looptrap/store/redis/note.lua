-- Keep notes: when one was last written, and its value.

local NOTE = 'n' .. pack('<d', RUN_MEMORY_S)

local function recall_note(sections)
  local payload = sections[NOTE]
  if not payload or unpack_at('<d', payload) <= now - RUN_MEMORY_S then return '' end
  return payload:sub(9)
end

local function write_note(sections, limit, value)
  if value == '' then
    sections[NOTE] = nil
    return
  end
  if limit > 0 then value = (recall_note(sections) .. value):sub(-limit) end
  sections[NOTE] = pack('<d', now) .. value
end
