"""Claims: what a caller's JWT says of it, as far as it is believed.

Claims      reads them from headers; what a token says is remembered while it is valid
content     Content: a token's claims as texts, and when they hold. Pure
signature   Signatures: who signed a token
key_file    keys to verify with, from a file: PEM, JWKS or a shared secret

PyJWT is an extra: only the last two import it, and they only where claims are wanted.
"""

from looptrap.gateway.claims.claims import Claims

__all__ = ["Claims"]
