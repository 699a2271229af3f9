//! The memory of queued packets: cells of one size, allocated once, and lists of them.

/// The absence of a cell.
const NONE: u32 = u32::MAX;

/// Cells. Each is free, in one list, or taken out of a list and not freed yet.
#[derive(Debug)]
pub(super) struct Pool {
    memory: Vec<u8>,
    cell_len: usize,
    /// Length of each cell's packet, and the next cell of its list.
    cells: Vec<Cell>,
    free: List,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    len: u32,
    next: u32,
}

/// A FIFO of cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

impl Pool {
    /// A pool of as many cells of `cell_len` bytes as fit into `bytes`, at least one.
    pub(super) fn new(bytes: usize, cell_len: usize) -> Self {
        let cell_len = cell_len.max(1);
        let count = (bytes / cell_len).clamp(1, NONE as usize - 1);
        let mut pool = Self {
            memory: vec![0; count * cell_len],
            cell_len,
            cells: vec![Cell { len: 0, next: NONE }; count],
            free: List::EMPTY,
        };
        for cell in 0..count as u32 {
            let mut free = pool.free;
            pool.append(&mut free, cell);
            pool.free = free;
        }
        pool
    }

    pub(super) fn memory(&self) -> &[u8] {
        &self.memory
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) const fn cell_len(&self) -> usize {
        self.cell_len
    }

    /// Offset of a cell's bytes.
    pub(super) const fn offset(&self, cell: u32) -> usize {
        cell as usize * self.cell_len
    }

    /// A free cell with a copy of `bytes`, which fit, or `None` when all are taken.
    pub(super) fn store(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut free = self.free;
        let (cell, _) = self.take(&mut free)?;
        self.free = free;
        let at = self.offset(cell);
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.cells[cell as usize].len = bytes.len() as u32;
        Some(cell)
    }

    /// The bytes of a cell; [`Self::shorten`] changes their number.
    pub(super) fn bytes_mut(&mut self, cell: u32) -> &mut [u8] {
        let at = self.offset(cell);
        let len = self.cells[cell as usize].len as usize;
        &mut self.memory[at..at + len]
    }

    pub(super) fn shorten(&mut self, cell: u32, len: usize) {
        self.cells[cell as usize].len = len as u32;
    }

    pub(super) fn append(&mut self, list: &mut List, cell: u32) {
        self.cells[cell as usize].next = NONE;
        match list.tail {
            NONE => list.head = cell,
            tail => self.cells[tail as usize].next = cell,
        }
        list.tail = cell;
    }

    /// Puts a cell that was taken out of a list back at its front.
    pub(super) fn put_back(&mut self, list: &mut List, cell: u32) {
        self.cells[cell as usize].next = list.head;
        if list.is_empty() {
            list.tail = cell;
        }
        list.head = cell;
    }

    /// Length of the first packet of a list.
    pub(super) fn head_len(&self, list: &List) -> Option<u32> {
        (!list.is_empty()).then(|| self.cells[list.head as usize].len)
    }

    /// Takes the first cell out of a list, with its length.
    pub(super) fn take(&mut self, list: &mut List) -> Option<(u32, u32)> {
        if list.is_empty() {
            return None;
        }
        let cell = list.head;
        let Cell { len, next } = self.cells[cell as usize];
        list.head = next;
        if next == NONE {
            list.tail = NONE;
        }
        Some((cell, len))
    }

    /// Frees a cell that was taken out of its list.
    pub(super) fn free(&mut self, cell: u32) {
        let mut free = self.free;
        // Last in, first out: its bytes are in the cache.
        self.put_back(&mut free, cell);
        self.free = free;
    }
}
