//! A pipeline that is built: packets, tables, registers.
#![expect(unsafe_code, reason = "DPDK is a foreign library")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;

use super::SwxError;
use super::build::Raw;
use super::memory::{Externs, Memory};
use super::operands::extracted_bytes;
use super::spec::Spec;
use crate::{Eal, eal, sys};

/// Instructions between two looks at whether all packets have left.
const INSTRUCTIONS: u32 = 64;
/// Looks after which packets are taken to be stuck: many times the longest program, for the most packets.
const ROUNDS_MAX: u32 = 1 << 20;

/// The ports and the memory of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Input ports, a power of two.
    pub inputs: u32,
    /// Output ports.
    pub outputs: u32,
    /// Packets that can be in the pipeline at a time.
    pub packets: u32,
    /// Bytes of the longest packet.
    pub packet_bytes_max: u32,
    /// Where the number by which external objects find a packet is written into it when it is offered: four bytes, in network order. `None`: nowhere.
    pub number_at: Option<u32>,
}

/// A packet that has left the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent<'m> {
    /// The output port; `None` for a packet that was dropped.
    pub port: Option<u32>,
    /// The token that the packet was offered with.
    pub token: u32,
    /// Its bytes.
    pub bytes: &'m [u8],
}

/// A pipeline of DPDK's. It belongs to one thread at a time, and keeps packets of different ports in no order.
pub struct Pipeline {
    ctl: *mut sys::rte_swx_ctl_pipeline,
    raw: Raw,
    memory: *mut Memory,
    outputs: u32,
    /// Sizes of the register arrays. DPDK wraps an index that is beyond an array.
    arrays: BTreeMap<String, (CString, u32)>,
    tables: BTreeMap<String, CString>,
    instructions: u64,
    _eal: Eal,
}

// SAFETY: the pipeline, its control structure and its memory are reached through this alone, and DPDK ties none of them to a thread.
unsafe impl Send for Pipeline {}

impl Pipeline {
    /// Builds a pipeline of the text of a specification.
    ///
    /// # Errors
    ///
    /// [`SwxError::Spec`] and [`SwxError::Refused`], with the line; [`SwxError::Config`].
    pub fn build(eal: &Eal, spec: &str, config: &PipelineConfig) -> Result<Self, SwxError> {
        let bad = |what, value, allowed| Err(SwxError::Config { what, value, allowed });
        if !config.inputs.is_power_of_two() || config.inputs > 1 << 16 {
            return bad("the number of input ports", config.inputs, "it must be a power of two up to 65536");
        }
        if config.outputs == 0 || config.outputs > 1 << 16 {
            return bad("the number of output ports", config.outputs, "it must be 1 to 65536");
        }
        if config.packets == 0 || config.packets > 1 << 16 {
            return bad("the number of packets", config.packets, "it must be 1 to 65536");
        }
        if config.packet_bytes_max > 1 << 16 {
            return bad(
                "the length of packets",
                config.packet_bytes_max,
                "at most 65536 bytes are supported",
            );
        }
        let spec = Spec::parse(spec)?;
        let most = config.packet_bytes_max as usize;
        let number_at = config.number_at.map(|at| at as usize);
        let (headers, extracted) = (spec.header_bytes(), extracted_bytes(&spec));
        let memory = Memory::new(config.inputs, config.packets, most, headers, extracted, number_at);
        let memory = Box::into_raw(Box::new(memory));
        let built = Self::connect(memory, &spec, config);
        let (raw, ctl) = built.inspect_err(|_| {
            // SAFETY: it was a box, and the pipeline that knew it is gone.
            drop(unsafe { Box::from_raw(memory) });
        })?;
        let named = |name: &str| CString::new(name).unwrap_or_default();
        let arrays = spec.arrays.iter().map(|array| (array.name.clone(), (named(&array.name), array.size)));
        let tables = spec.tables.iter().map(|table| (table.name.clone(), named(&table.name)));
        Ok(Self {
            ctl,
            raw,
            memory,
            outputs: config.outputs,
            arrays: arrays.collect(),
            tables: tables.collect(),
            instructions: 0,
            _eal: eal.clone(),
        })
    }

    fn connect(
        memory: *mut Memory,
        spec: &Spec,
        config: &PipelineConfig,
    ) -> Result<(Raw, *mut sys::rte_swx_ctl_pipeline), SwxError> {
        let raw = Raw::new()?;
        raw.ports(memory, config.inputs, config.outputs)?;
        raw.configure(spec, memory, config.outputs)?;
        // SAFETY: a pipeline that is built.
        let ctl = unsafe { sys::rte_swx_ctl_pipeline_create(raw.0) };
        if ctl.is_null() {
            let construct = "to create the tables of the pipeline".into();
            return Err(SwxError::Refused {
                line: 0,
                construct,
                source: std::io::ErrorKind::OutOfMemory.into(),
            });
        }
        Ok((raw, ctl))
    }

    fn memory(&mut self) -> &mut Memory {
        // SAFETY: a box that lives as long as `self`. DPDK uses it only in `run`, while no such reference exists.
        unsafe { &mut *self.memory }
    }

    /// Queues a packet, the concatenation of `parts`, at an input port. False if there is no such port, no room for another packet, or if the packet is
    /// longer than allowed.
    pub fn offer(&mut self, port: u32, token: u32, parts: &[&[u8]]) -> bool {
        self.memory().offer(port, token, parts)
    }

    /// Runs until every packet that was offered has left, and passes each to `each`. External objects do nothing.
    ///
    /// # Errors
    ///
    /// [`SwxError::Stuck`]; the packets that have left are passed.
    pub fn run(&mut self, each: impl FnMut(Sent<'_>)) -> Result<(), SwxError> {
        self.run_with(&mut (), each)
    }

    /// The same, with what executes external objects.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_with(
        &mut self,
        mut externs: &mut dyn Externs,
        mut each: impl FnMut(Sent<'_>),
    ) -> Result<(), SwxError> {
        let mut rounds = 0;
        // The object's function finds the reference there, and is called by `rte_swx_pipeline_run` alone.
        self.memory().externs = Some(NonNull::from(&mut externs).cast());
        while self.memory().outstanding > 0 && rounds < ROUNDS_MAX {
            // SAFETY: a pipeline that is built, and no reference to its memory exists. What it executes was checked when the specification was
            // read: it stays within the slots of `Memory`.
            unsafe { sys::rte_swx_pipeline_run(self.raw.0, INSTRUCTIONS) };
            rounds += 1;
        }
        self.memory().externs = None;
        self.instructions += u64::from(rounds) * u64::from(INSTRUCTIONS);
        let outputs = self.outputs;
        let memory = self.memory();
        for done in &memory.done {
            let port = (done.port < outputs).then_some(done.port);
            each(Sent { port, token: memory.tokens[done.slot as usize], bytes: memory.bytes(done) });
        }
        memory.recycle();
        match memory.outstanding {
            0 => Ok(()),
            count => Err(SwxError::Stuck { count }),
        }
    }

    /// Instructions that DPDK has executed, those that looked for a packet in vain included.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Stages an entry of a table, as a line of DPDK's: `match KEYS [priority N] action NAME ARGUMENTS`. An entry with the same key is replaced.
    ///
    /// # Errors
    ///
    /// [`SwxError::Entry`].
    pub fn insert(&mut self, table: &str, entry: &str) -> Result<(), SwxError> {
        self.change(table, entry, sys::rte_swx_ctl_pipeline_table_entry_add)
    }

    /// Stages the removal of the entry with the key of `entry`.
    ///
    /// # Errors
    ///
    /// [`SwxError::Entry`].
    pub fn delete(&mut self, table: &str, entry: &str) -> Result<(), SwxError> {
        self.change(table, entry, sys::rte_swx_ctl_pipeline_table_entry_delete)
    }

    fn change(
        &mut self,
        table: &str,
        entry: &str,
        change: unsafe extern "C" fn(
            *mut sys::rte_swx_ctl_pipeline,
            *const std::ffi::c_char,
            *mut sys::rte_swx_table_entry,
        ) -> std::ffi::c_int,
    ) -> Result<(), SwxError> {
        let wrong = || SwxError::Entry { table: table.to_owned(), entry: entry.to_owned() };
        let name = self.tables.get(table).ok_or_else(wrong)?;
        let line = CString::new(entry).map_err(|_| wrong())?;
        // SAFETY: the control structure of a pipeline that is built, and strings; the last argument may be null.
        let read = unsafe {
            sys::rte_swx_ctl_pipeline_table_entry_read(
                self.ctl,
                name.as_ptr(),
                line.as_ptr(),
                std::ptr::null_mut(),
            )
        };
        if read.is_null() {
            return Err(wrong());
        }
        // SAFETY: the same, and the entry, which DPDK copies.
        let rc = unsafe { change(self.ctl, name.as_ptr(), read) };
        // SAFETY: the entry was made by DPDK for the caller, and is freed once.
        unsafe { sys::netfold_swx_entry_free(read) };
        if rc == 0 { Ok(()) } else { Err(wrong()) }
    }

    /// Applies all staged changes of tables, or none.
    ///
    /// # Errors
    ///
    /// [`SwxError::Commit`]; the changes are no longer staged.
    pub fn commit(&mut self) -> Result<(), SwxError> {
        // SAFETY: the control structure of a pipeline that is built and does not run.
        let rc = unsafe { sys::rte_swx_ctl_pipeline_commit(self.ctl, 1) };
        if rc == 0 { Ok(()) } else { Err(SwxError::Commit { source: eal::error(rc) }) }
    }

    fn array(&self, name: &str, index: u32) -> Result<&CString, SwxError> {
        let found = self.arrays.get(name).filter(|(_, size)| index < *size);
        found.map(|(name, _)| name).ok_or_else(|| SwxError::Register { name: name.to_owned(), index })
    }

    /// One entry of a register array, 64 bits.
    ///
    /// # Errors
    ///
    /// [`SwxError::Register`].
    pub fn read_register(&self, name: &str, index: u32) -> Result<u64, SwxError> {
        let array = self.array(name, index)?;
        let mut value = 0;
        // SAFETY: a pipeline that is built, a string, and where to write one number.
        let rc = unsafe {
            sys::rte_swx_ctl_pipeline_regarray_read(self.raw.0, array.as_ptr(), index, &raw mut value)
        };
        if rc == 0 { Ok(value) } else { Err(SwxError::Register { name: name.to_owned(), index }) }
    }

    /// Overwrites one entry of a register array.
    ///
    /// # Errors
    ///
    /// [`SwxError::Register`].
    pub fn write_register(&mut self, name: &str, index: u32, value: u64) -> Result<(), SwxError> {
        let array = self.array(name, index)?;
        // SAFETY: a pipeline that is built and does not run, and a string.
        let rc =
            unsafe { sys::rte_swx_ctl_pipeline_regarray_write(self.raw.0, array.as_ptr(), index, value) };
        if rc == 0 { Ok(()) } else { Err(SwxError::Register { name: name.to_owned(), index }) }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: made by `rte_swx_ctl_pipeline_create`, and freed once, before the pipeline that it controls.
        unsafe { sys::rte_swx_ctl_pipeline_free(self.ctl) };
        let raw = std::mem::replace(&mut self.raw, Raw(std::ptr::null_mut()));
        drop(raw);
        // SAFETY: it was a box, and the pipeline that knew it is gone.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("outputs", &self.outputs).finish_non_exhaustive()
    }
}
