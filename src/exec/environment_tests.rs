use super::*;

#[test]
fn lock_files_are_hashed_as_sha256sum_does() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(lock_file_hash(root.path()), None);
    fs::write(root.path().join("uv.lock"), "c").unwrap();
    fs::write(root.path().join("Cargo.lock"), "ab").unwrap();
    fs::write(root.path().join("README.md"), "other").unwrap();
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(lock_file_hash(root.path()).as_deref(), Some(abc));
    assert!(LOCK_FILES.is_sorted());
}

#[test]
fn the_machine_is_called_as_the_kernel_does() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(environment(Path::new("/")).host, host.trim());
}
