//! The properties of a device, in each version's layout.

use core::ffi::{c_char, c_int};

use crate::abi::{
    PTR_HOST, PropertiesHead, PropertiesV6, PropertiesV8, PropertiesV11, PropertiesV12, UNDEFINED,
};
use crate::interfaces;
use crate::result::Result;

/// Connections at a time, as of NCCL's own sockets.
const COMMS_MAX: c_int = 65_536;
/// Longest message and all-reduce in one request. Longer ones would not fit the size that `test` returns.
pub(crate) const BYTES_MAX: usize = 1 << 30;

/// One version's properties.
pub(crate) trait Properties {
    fn of(device_properties: DeviceProperties) -> Self;
}

/// A device's properties in all versions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceProperties {
    index: c_int,
    name: *const c_char,
    pci_path: *const c_char,
    speed: c_int,
}

/// The properties of a device.
pub(crate) fn of<P: Properties>(index: c_int) -> Result<P> {
    let device = interfaces::device(index)?;
    Ok(P::of(DeviceProperties {
        index,
        name: device.name.as_ptr(),
        pci_path: device.pci_path.as_ref().map_or(core::ptr::null(), |path| path.as_ptr()),
        speed: device.speed,
    }))
}

impl DeviceProperties {
    fn guid(&self) -> u64 {
        self.index as u64
    }

    fn head(&self) -> PropertiesHead {
        PropertiesHead {
            name: self.name,
            pci_path: self.pci_path,
            guid: self.guid(),
            ptr_support: PTR_HOST,
            reg_is_global: 0,
            force_flush: 0,
            speed: self.speed,
            port: 0,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
            device_type: 0,
            device_version: 0,
        }
    }
}

impl Properties for PropertiesV6 {
    fn of(device_properties: DeviceProperties) -> Self {
        Self {
            name: device_properties.name,
            pci_path: device_properties.pci_path,
            guid: device_properties.guid(),
            ptr_support: PTR_HOST,
            speed: device_properties.speed,
            port: 0,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
        }
    }
}

impl Properties for PropertiesV8 {
    fn of(device_properties: DeviceProperties) -> Self {
        Self {
            name: device_properties.name,
            pci_path: device_properties.pci_path,
            guid: device_properties.guid(),
            ptr_support: PTR_HOST,
            reg_is_global: 0,
            speed: device_properties.speed,
            port: 0,
            latency: 0.0,
            max_comms: COMMS_MAX,
            max_recvs: 1,
            device_type: 0,
            device_version: 0,
        }
    }
}

impl Properties for PropertiesV11 {
    fn of(device_properties: DeviceProperties) -> Self {
        let mut device = [0; 4];
        device[0] = device_properties.index;
        Self {
            head: device_properties.head(),
            devices: 1,
            device,
            max_p2p_bytes: BYTES_MAX,
            max_coll_bytes: BYTES_MAX,
            max_multi_request: 1,
        }
    }
}

impl Properties for PropertiesV12 {
    fn of(device_properties: DeviceProperties) -> Self {
        let mut device = [0; 8];
        device[0] = device_properties.index;
        Self {
            head: device_properties.head(),
            devices: 1,
            device,
            max_p2p_bytes: BYTES_MAX,
            max_coll_bytes: BYTES_MAX,
            max_multi_request: 1,
            rail: UNDEFINED,
            plane: UNDEFINED,
        }
    }
}
