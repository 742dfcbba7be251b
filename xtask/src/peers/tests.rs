use super::*;

fn scratch(name: &str) -> PathBuf {
    let root = env::temp_dir().join(format!("cardan-xtask-{name}-{}", std::process::id()));
    remove(&root).unwrap();
    for folder in ["node-a", "python-b", "node-empty", "other", "c"] {
        fs::create_dir_all(root.join("peers").join(folder)).unwrap();
    }
    fs::write(root.join("peers/node-a/package.json"), "{}").unwrap();
    fs::write(root.join("peers/python-b/requirements.txt"), "x==1").unwrap();
    fs::write(root.join("peers/c/Cargo.toml"), "[workspace]").unwrap();
    root
}

#[test]
fn peers_are_found_by_name_and_manifest() {
    let root = scratch("find");
    let peers = find(&root).unwrap();
    let found: Vec<_> = peers.iter().map(|peer| (peer.name.as_str(), peer.kind)).collect();
    assert_eq!(found, [("c", Kind::Rust), ("node-a", Kind::Node), ("python-b", Kind::Python)]);
    assert!(peers[2].place.ends_with("target/peers/python-b"));
    remove(&root).unwrap();
}

#[test]
fn a_changed_manifest_changes_the_fingerprint() {
    let root = scratch("print");
    let peer = find(&root).unwrap().remove(2);
    let before = peer.fingerprint().unwrap();
    assert_eq!(before, peer.fingerprint().unwrap());
    fs::write(peer.folder.join("requirements.txt"), "x==2").unwrap();
    assert_ne!(before, peer.fingerprint().unwrap());
    remove(&root).unwrap();
}

#[test]
fn a_stamped_peer_is_not_installed_again() {
    let root = scratch("stamp");
    let peer = find(&root).unwrap().remove(1);
    fs::create_dir_all(&peer.place).unwrap();
    fs::create_dir_all(peer.stamp.parent().unwrap()).unwrap();
    fs::write(&peer.stamp, peer.fingerprint().unwrap()).unwrap();
    fs::write(peer.place.join("kept"), "").unwrap();
    peer.install().unwrap();
    assert!(peer.place.join("kept").is_file(), "installing would have emptied the folder");
    remove(&root).unwrap();
}

#[test]
fn fnv_matches_its_published_value() {
    assert_eq!(Fnv::START.add(b"a").0, 0xaf63_dc4c_8601_ec8c);
}
