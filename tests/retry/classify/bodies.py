"""Error bodies as the providers, and Looptrap, send them."""

import json

GOOGLE = "type.googleapis.com/google.rpc."


def openai(code=None, kind=None, message="no"):
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def anthropic(kind, message="no", error_code=None):
    error = {"type": kind, "message": message}
    if error_code:
        error["details"] = {"error_code": error_code}
    return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()


def google(status, message="no", *details, code=429):
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return json.dumps({"error": error}).encode()


def quota(quota_id, value="50"):
    violation = {"quotaMetric": "g/generate_content", "quotaId": quota_id, "quotaValue": value}
    return {"@type": f"{GOOGLE}QuotaFailure", "violations": [violation]}


def retry_info(delay):
    return {"@type": f"{GOOGLE}RetryInfo", "retryDelay": delay}


HELP = {"@type": f"{GOOGLE}Help", "links": [{"url": "https://ai.google.dev/"}]}


def looptrap(reason):
    code = {"loop_detected": "recursive_loop_detected"}.get(reason, reason)
    error = {"message": "no", "type": reason, "param": None, "code": code}
    return json.dumps({"error": error, "detail": {"error": code}}).encode()
