//! Files that keep a program on its interfaces when its process has ended.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use netfold_bpf::sys::{self, Link};

use crate::{Datapath, XdpError};

/// Names of the files of links begin with this.
const LINK: &str = "link_";

impl Datapath {
    /// Makes files in `folder`, which must be in a BPF file system, that keep the maps and the program on its interfaces until
    /// [`detach_pinned`]. The folder is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`XdpError::Pin`]; files that were made before stay.
    pub fn pin(&self, folder: &Path) -> Result<(), XdpError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| XdpError::Pin { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        for spec in &self.xdp.maps {
            let (path, Some(map)) = (folder.join(&spec.name), self.maps.get(&spec.id)) else { continue };
            sys::pin(map.as_fd(), &path).map_err(failed(&path))?;
        }
        for (interface, link) in &self.links {
            let path = folder.join(format!("{LINK}{interface}"));
            sys::pin(link.as_fd(), &path).map_err(failed(&path))?;
        }
        Ok(())
    }
}

/// Takes a pinned program off its interfaces, and removes the files and the folder. Returns the number of interfaces.
///
/// # Errors
///
/// [`XdpError::Pin`], as when there is no such folder, or it has no pinned program.
pub fn detach_pinned(folder: &Path) -> Result<usize, XdpError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| XdpError::Pin { path, source }
    };
    let files = fs::read_dir(folder).map_err(failed(folder))?;
    let files: Vec<_> = files.collect::<Result<_, _>>().map_err(failed(folder))?;
    let is_link = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(LINK);
    let count = files.iter().filter(|file| is_link(file)).count();
    if count == 0 {
        let nothing = io::Error::new(io::ErrorKind::NotFound, "there is no pinned program");
        return Err(failed(folder)(nothing));
    }
    for file in files.iter().filter(|file| is_link(file)) {
        let path = file.path();
        let link = Link::adopt(sys::open(&path).map_err(failed(&path))?);
        link.detach().map_err(failed(&path))?;
    }
    for file in &files {
        fs::remove_file(file.path()).map_err(failed(&file.path()))?;
    }
    fs::remove_dir(folder).map_err(failed(folder))?;
    Ok(count)
}
