"""The workspace: the `web` platform, a house with the same rooms as the chat platforms."""

import ipaddress


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
