-- Count calls one after the other.
--
-- A series is: when it was touched, when its latest call began, how many calls it has, how many are
-- under way, and how late the next one may begin to continue it, 0 if that is not known.
--
-- All of it is made for a batch that has such calls, and not for the others.

local function new_serial()
  local SERIES = '<ddI4I4d'
  local first = pack(SERIES, now, now, 1, 0, 0)

  local function hit(payload)
    if not payload then return first, 1 end
    local touched, began, calls, open, ends = unpack_at(SERIES, payload)
    if began <= now - STREAK_MEMORY_S then return first, 1 end
    if open > 0 then -- these are remembered, so that none of them seems to be a later one
      calls = 1
    elseif ends == 0 or now <= ends then
      calls, open, began = min(calls + 1, HIT_LIMIT), 1, now
    else
      return first, 1
    end
    return pack(SERIES, max(touched, now), began, calls, open, 0), calls
  end

  local function ends_after(name, took, ended)
    return ended + min(unpack_at('<d', name, 2), took / 2)
  end

  -- Note a call that is no hit (1), or an answer (-1).
  local function change_open(sections, name, change)
    local touched, began, calls, open, ends = unpack_at(SERIES, sections[name])
    if change < 0 and calls > 1 then
      touched, ends = max(touched, now), max(ends, ends_after(name, now - began, now))
    end
    if change < 0 or calls > 1 then open = max(open + change, 0) end
    sections[name] = pack(SERIES, touched, began, calls, open, ends)
  end

  -- A refusal is like an answer that takes as long as the cooldown.
  local function refuse(sections, name, seconds, deadline)
    local touched, began, calls, open, ends = unpack_at(SERIES, sections[name])
    if calls == 1 then return end
    touched, began = max(touched, deadline), max(began, deadline)
    ends = max(ends, ends_after(name, seconds, deadline))
    sections[name] = pack(SERIES, touched, began, calls, open, ends)
  end

  return { first = first, hit = hit, change_open = change_open, refuse = refuse }
end

local of_series
local function serial()
  of_series = of_series or new_serial()
  return of_series
end
