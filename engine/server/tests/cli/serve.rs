//! `serve`: an engine for others.

use super::support::*;

/// D66: no engine for others without an encryption key, nor without anybody who may log in.
#[test]
fn d66_serve_refuses_to_start_without_an_encryption_key_or_anybody_to_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let serve = ["serve", "--database", "sqlite:x.db", "--listen", "127.0.0.1:0"];
    let (code, words) = refused(here, &serve);
    assert_eq!(code, 2);
    assert!(words.contains("LEGATION_MASTER_KEY"), "{words}");
    assert!(!here.join("x.db").exists(), "it touched a database");

    std::fs::write(here.join("short"), "1234").unwrap();
    let (code, words) = refused(here, &[&serve[..], &["--master-key-file", "short"]].concat());
    assert_eq!(code, 2);
    assert!(words.contains("64 hex characters"), "{words}");

    std::fs::write(here.join("key"), "ab".repeat(32)).unwrap();
    let (code, words) = refused(here, &[&serve[..], &["--master-key-file", "key"]].concat());
    assert_eq!(code, 2);
    assert!(words.contains("--bootstrap-admin-key-file"), "{words}");
}

#[test]
fn serve_makes_the_first_key_logs_json_and_knows_its_encryption_key_again() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("key"), "ab".repeat(32)).unwrap();
    let with_key = ["serve", "--database", "sqlite:x.db", "--listen", "127.0.0.1:0"];
    let mut command = legation(here);
    command.args(with_key).args([
        "--master-key-file",
        "key",
        "--bootstrap-admin-key-file",
        "admin.key",
    ]);
    let engine = Engine::start(command);
    let line: serde_json::Value = serde_json::from_str(&engine.says("legation serves")).unwrap();
    let address = line["fields"]["address"].as_str().unwrap().to_owned();
    assert_eq!(mode(here.join("admin.key")), 0o600);

    let url = format!("http://{address}");
    let admin = std::fs::read_to_string(here.join("admin.key")).unwrap();
    let secret = legation(here)
        .args([
            "keys", "create", "--person", "alice", "--groups", "finance", "--url", &url,
        ])
        .env("LEGATION_KEY", admin.trim())
        .output()
        .unwrap();
    assert!(secret.status.success(), "{}", err(&secret));
    let list = |key: &str| {
        legation(here)
            .args(["instances", "--json", "--url", &url])
            .env("LEGATION_KEY", key)
            .output()
            .unwrap()
    };
    let answer = list(out(&secret).trim());
    assert_eq!(out(&answer).trim(), r#"{"instances":[]}"#, "{}", err(&answer));
    let stranger = list("nobody");
    assert_eq!(stranger.status.code(), Some(1));
    assert!(err(&stranger).contains("UNAUTHENTICATED"), "{}", err(&stranger));
    engine.stop();

    std::fs::write(here.join("other"), "cd".repeat(32)).unwrap();
    let (code, words) = refused(here, &[&with_key[..], &["--master-key-file", "other"]].concat());
    assert_eq!(code, 1);
    assert!(words.contains("encrypted under master key"), "{words}");
}

#[test]
fn serve_says_which_database_it_cannot_reach_and_why_and_does_not_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "ab".repeat(32)).unwrap();
    let (code, words) = refused(
        folder.path(),
        &[
            "serve",
            "--database",
            "postgres://someone:secret@127.0.0.1:1/nothing",
            "--wait-for-database",
            "1500ms",
            "--master-key-file",
            "key",
        ],
    );
    assert_eq!(code, 1);
    for part in [
        "connecting to the database 127.0.0.1:1/nothing",
        "is not reached: Connection refused",
        "trying again in 1 s",
        "the database 127.0.0.1:1/nothing was not reached within 1 s: Connection refused",
    ] {
        assert!(words.contains(part), "{part} is missing in {words}");
    }
    assert!(!words.contains("secret"), "{words}");
}
