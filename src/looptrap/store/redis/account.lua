-- Keep accounts: the same arithmetic as in account.py, number by number.
--
-- Every account begins with when it ends, and with the seconds that this is ahead. Then comes, with
-- periods (p): when the present one began, what is spent in it, and pairs of a place and what is
-- reserved there. Of one that leaks (l): as of when it says what is used, and that.
--
-- All of it is made for a batch that has charges, and not for the others.

local function accounts()
  local function balance(is_granted, used, left, place)
    return pack('<Bddd', is_granted and 1 or 0, used, left, place)
  end

  local function open_period(payload, seconds)
    local start = seconds > 0 and math.floor((now - FIRST_MONDAY_S) / seconds) * seconds + FIRST_MONDAY_S or 0
    local account = { seconds = seconds, start = start, spent = 0, reserved = 0, places = {} }
    if not payload or unpack_at('<d', payload) <= now then return account end
    local began, spent = unpack_at('<dd', payload, 17)
    -- A clock that is a little slow does not begin a period that is over anew.
    if seconds == 0 or (start <= began and began <= now + seconds) then
      account.start, account.spent = began, spent
    end
    for at = 33, #payload, 16 do
      local place, amount = unpack_at('<dd', payload, at)
      if now < place and place <= now + MAX_RESERVATION_S then
        account.places[place] = amount
        account.reserved = account.reserved + amount
      end
    end
    return account
  end

  -- One that holds nothing is forgotten.
  local function keep_period(sections, name, account, limit)
    local start, spent, seconds = account.start, account.spent, account.seconds
    local ends, used, reserved = 0, spent, {}
    for place, amount in pairs(account.places) do
      ends, used = max(ends, place), used + amount
      reserved[#reserved + 1] = pack('<dd', place, amount)
    end
    is_used_up = used * HEAVY_USE_DIVISOR >= limit
    if spent > 0 then ends = max(ends, seconds > 0 and start + seconds or now + ACCOUNT_TTL_S) end
    local head = pack('<dddd', ends, ends - now, start, spent)
    sections[name] = ends > 0 and head .. table.concat(reserved) or nil
  end

  local function charge_period(sections, name, operation)
    local seconds, amount, limit = unpack_at('<ddd', operation, 2)
    local account = open_period(sections[name], seconds)
    local places, place = account.places, 0
    local used = min(account.spent + account.reserved, UNLIMITED)
    local is_granted = amount <= limit - used
    if is_granted and amount > 0 then
      place = math.ceil((now + RESERVATION_S) / RESERVATION_BUCKET_S) * RESERVATION_BUCKET_S
      places[place] = (places[place] or 0) + amount
      used = used + amount
    end
    keep_period(sections, name, account, limit)
    return balance(is_granted, used, seconds > 0 and account.start + seconds - now or 0, place)
  end

  local function settle_period(sections, name, operation)
    local seconds, amount, actual, place, limit = unpack_at('<ddddd', operation, 2)
    local account = open_period(sections[name], seconds)
    local reserved = account.places[place] or 0
    account.places[place] = reserved > amount and reserved - amount or nil
    account.spent = min(account.spent + actual, UNLIMITED)
    keep_period(sections, name, account, limit)
    return 0
  end

  local function open_leaking(payload, seconds, limit)
    if not payload then return now, 0 end
    local ends, _, at, used = unpack_at('<dddd', payload)
    if ends <= now then return now, 0 end
    -- Nothing runs out before a clock that was set back is there again.
    if at > now then return min(at, now + seconds), used end
    return now, max(0, used - (now - at) * limit / seconds)
  end

  local function keep_leaking(sections, name, seconds, limit, at, used)
    local lasts = min(limit > 0 and used * seconds / limit or seconds, ACCOUNT_TTL_S)
    sections[name] = used > 0 and pack('<dddd', at + lasts, at + lasts - now, at, used) or nil
  end

  local function charge_leaking(sections, name, operation)
    local seconds, amount, limit = unpack_at('<ddd', operation, 2)
    local at, used = open_leaking(sections[name], seconds, limit)
    local is_granted, left = amount <= limit - used, 0
    if is_granted then
      used = used + amount
    elseif limit <= 0 then
      left = seconds
    elseif amount <= limit then
      left = (used - (limit - amount)) * seconds / limit
    else -- there never is room
      left = min(used * seconds / limit, seconds)
    end
    keep_leaking(sections, name, seconds, limit, at, used)
    return balance(is_granted, math.ceil(used), left, 0)
  end

  local function settle_leaking(sections, name, operation)
    local seconds, amount, actual, limit = unpack_at('<dddd', operation, 2)
    local at, used = open_leaking(sections[name], seconds, limit)
    used = min(max(0, used + (actual - amount)), UNLIMITED)
    keep_leaking(sections, name, seconds, limit, at, used)
    return 0
  end

  return { p = charge_period, P = settle_period, l = charge_leaking, L = settle_leaking }
end
