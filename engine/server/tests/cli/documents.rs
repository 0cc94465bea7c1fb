//! `init` and `validate`, which need no engine.

use super::support::*;

#[test]
fn init_writes_a_valid_project_and_nothing_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for template in ["refund", "empty"] {
        ok(here, &["init", template, template]);
        let report = legation(&here.join(template))
            .args(["validate", "."])
            .output()
            .unwrap();
        assert!(report.status.success(), "{}", err(&report));
        assert!(err(&report).contains("no problems"), "{}", err(&report));
    }
    let (code, words) = refused(here, &["init", "empty", "refund"]);
    assert_eq!(code, 1);
    assert!(words.contains("is not empty"), "{words}");
}

#[test]
fn validate_shows_every_problem_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let file = project.join("processes/hello.process.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("type: end", "type: edn")).unwrap();
    let (code, words) = refused(&project, &["validate"]);
    assert_eq!(code, 1);
    for part in [
        "UNKNOWN_NODE_TYPE",
        "processes/hello.process.yaml:17:13",
        "type: edn",
        "did you mean `end`?",
        "1 error",
    ] {
        assert!(words.contains(part), "{part} is missing in {words}");
    }
    assert!(!words.contains('\x1b'), "colours where nobody looks: {words}");
    let json = legation(&project).args(["validate", "--json"]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["valid"], false);
    assert_eq!(
        (&answer["problems"][0]["line"], &answer["problems"][0]["severity"]),
        (&17.into(), &"ERROR".into())
    );
}
