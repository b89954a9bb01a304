"""Where ranks compute: what is here, how fast it is, and devices throttled to rehearse other machines."""

from gnnhet.devices.device import Device
from gnnhet.devices.discover import discover_devices
from gnnhet.devices.measure import measure_device
from gnnhet.devices.profile import DeviceProfile, Spread
from gnnhet.devices.spec import parse_devices, require_present
from gnnhet.devices.throttle import Throttle

__all__ = [
    "Device",
    "DeviceProfile",
    "Spread",
    "Throttle",
    "discover_devices",
    "measure_device",
    "parse_devices",
    "require_present",
]
