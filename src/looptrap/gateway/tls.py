"""TLS: the gateway's own certificate, and the authorities that it trusts upstream."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from looptrap.config.gateway import GatewaySettings
from looptrap.errors import ConfigError, Problem


def upstream_ca_file(settings: GatewaySettings) -> Path | None:
    """Return the file with further authorities; raise ConfigError if it cannot be used."""
    if settings.upstream_ca is None:
        return None
    try:
        ssl.create_default_context(cafile=settings.upstream_ca)
    except OSError as error:
        message = f"{settings.upstream_ca}: {os_error_text(error)}"
        raise ConfigError([Problem("gateway.upstream_ca", message)]) from None
    return Path(settings.upstream_ca)


def server_tls_context(settings: GatewaySettings) -> ssl.SSLContext | None:
    """Return the context to listen with, None for plain HTTP; may raise ConfigError."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        message = f"{settings.tls_cert}, {settings.tls_key}: {os_error_text(error)}"
        raise ConfigError([Problem("gateway.tls_cert", message)]) from None
    return context


def os_error_text(error: OSError) -> str:
    """Return the system's text for an error, as a part of a sentence."""
    # asyncio puts words of its own around the system's; TLS and DNS have numbers of their own.
    if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower()
