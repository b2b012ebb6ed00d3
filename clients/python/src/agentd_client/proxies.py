"""Which proxy a call goes through. httpx takes it from an argument or from the environment."""

import ipaddress
import urllib.request
from collections.abc import Mapping
from typing import Any

import httpx


def loopback(host: str) -> bool:
    """Whether a host is this machine."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def without(url: httpx.URL, http: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of httpx's client with which it asks a server on this machine directly."""
    if not loopback(url.host) or "proxy" in http:
        return dict(http)
    host = f"[{url.host}]" if ":" in url.host else url.host
    return {**http, "mounts": {f"all://{host}": None, **(http.get("mounts") or {})}}


def used(url: httpx.URL, http: Mapping[str, Any]) -> str | None:
    """The proxy for a server, without its user and password; None if there is none."""
    proxy = http.get("proxy")
    if proxy is None:
        if loopback(url.host) or "transport" in http or http.get("trust_env") is False:
            return None
        named = urllib.request.getproxies()
        proxy = named.get(url.scheme) or named.get("all")
        if not proxy or urllib.request.proxy_bypass(url.netloc.decode("ascii").rpartition("@")[2]):
            return None
    if isinstance(proxy, httpx.Proxy):
        proxy = proxy.url
    try:
        parsed = httpx.URL(proxy if "://" in str(proxy) else f"http://{proxy}")
    except httpx.InvalidURL:
        return "of the environment"  # httpx refuses it
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"
