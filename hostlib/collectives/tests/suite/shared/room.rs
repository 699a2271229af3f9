//! Directories without room, or none at all.

use std::io::ErrorKind;
use std::process::Command;

use netfold_collectives::shared::{SharedConfig, SharedError, SharedGroup};

#[test]
fn no_directory() {
    let result = SharedGroup::create(SharedConfig::new(2).directory("/nonexistent/netfold"));
    assert!(matches!(result, Err(SharedError::Unavailable { .. })), "{result:?}");
}

/// In a mount namespace of its own, where a tmpfs of 1 MiB lies on a directory: found when the group is made.
#[test]
fn too_little_room() {
    if std::env::var("SHARED_PART").as_deref() == Ok("room") {
        return inside();
    }
    let directory = std::env::temp_dir().join(format!("netfold-shared-room-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&directory).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "shared::room::too_little_room", "--nocapture"]);
    let output = command.env("SHARED_PART", "room").env("SHARED_DIRECTORY", &directory).output();
    std::fs::remove_dir(&directory).unwrap();
    let text = |output: &std::process::Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    match output {
        Ok(output) if output.status.success() => {
            assert!(
                String::from_utf8_lossy(&output.stdout).contains("no room: reported"),
                "{}",
                text(&output)
            );
        }
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("test result") => {
            panic!("{}", text(&output))
        }
        Ok(output) => println!("skipped: a mount namespace with a tmpfs ({})", text(&output).trim()),
        Err(error) => println!("skipped: the command unshare ({error})"),
    }
}

fn inside() {
    let directory = std::env::var("SHARED_DIRECTORY").unwrap();
    let result = SharedGroup::create(SharedConfig::new(4).directory(&directory));
    match result {
        Err(SharedError::Unavailable { source, .. }) => assert_eq!(source.kind(), ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    // A smaller one fits.
    drop(SharedGroup::create(SharedConfig::new(4).directory(&directory).segment_bytes(4096)).unwrap());
    println!("\nno room: reported");
}
