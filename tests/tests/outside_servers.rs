//! The protocol's own example servers, unchanged (`make npm` fetches them), as tools of a process: over stdio and over
//! streamable HTTP, from the model's call to the journal.

use legation_store::Dialect;
use legation_tests::e2e::model::{FakeModel, answers, calls, text, turn};
use legation_tests::e2e::{Process, Stage, free_port, until, workspace};
use serde_json::{Value, json};

fn package(name: &str) -> String {
    let path = workspace()
        .join("tests/node_modules/@modelcontextprotocol")
        .join(name)
        .join("dist/index.js");
    assert!(path.exists(), "{} is missing: run `make npm`", path.display());
    path.display().to_string()
}

const PROCESS: &str = "
metadata: { key: errand, variables: {}, outputs: { answer: { type: any } } }
flow:
  nodes:
    - id: work
      type: agent
      model: first
      prompt: Run the errand.
      tools: [everything/echo, everything/get-sum, web/echo, web/get-sum, files/read_text_file, files/write_file]
      result_variable: answer
    - { id: done, type: end }
";

fn documents(url: &str) -> [(&'static str, String); 4] {
    let everything = "tools: { echo: { policy: read }, get-sum: { policy: read } }";
    let files =
        "tools: { read_text_file: { policy: read }, write_file: { policy: write, idempotency: none } }";
    [
        (
            "servers/everything.server.yaml",
            format!("name: everything\ntransport: stdio\n{everything}\n"),
        ),
        (
            "servers/web.server.yaml",
            format!("name: web\ntransport: streamable-http\nurl: {url}\n{everything}\n"),
        ),
        (
            "servers/files.server.yaml",
            format!("name: files\ntransport: stdio\n{files}\n"),
        ),
        ("processes/errand.process.yaml", PROCESS.to_owned()),
    ]
}

/// D23, D38: the everything server over both transports and the filesystem server, in one turn and then a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_servers_work_over_both_transports() {
    let (mut stage, engine) = Stage::new(Dialect::Sqlite).await;
    stage.keep(engine);
    let port = free_port();
    stage.keep(everything_over_http(&stage, port).await);
    let url = format!("http://127.0.0.1:{port}/mcp");
    let folder = stage.path().join("papers").display().to_string();
    std::fs::create_dir_all(&folder).expect("the folder can be written");
    std::fs::write(format!("{folder}/note.txt"), "the order is A-7").expect("a file can be written");

    let paths = folder.clone();
    let model = FakeModel::new(move |asked| {
        let file = |name: &str| json!({ "path": format!("{paths}/{name}") });
        match turn(asked) {
            1 => calls(&[
                ("1", "everything__echo", r#"{"message":"near"}"#),
                ("2", "everything__get-sum", r#"{"a":2,"b":40}"#),
                ("3", "web__echo", r#"{"message":"far"}"#),
                ("4", "web__get-sum", r#"{"a":20,"b":3}"#),
                ("5", "files__read_text_file", &file("note.txt").to_string()),
                ("6", "files__read_text_file", r#"{"path":"/etc/passwd"}"#),
            ]),
            2 => {
                let mut write = file("copy.txt");
                write["content"] = json!(answers(asked)[4]);
                calls(&[("7", "files__write_file", &write.to_string())])
            }
            _ => text("all done"),
        }
    })
    .await;
    let program = |name: &str, args: &str| format!("[servers.{name}]\ncommand = \"node\"\nargs = [{args}]\n");
    let servers = format!(
        "{}{}[servers.web]\nurl = \"{url}\"\n",
        program(
            "everything",
            &format!("\"{}\", \"stdio\"", package("server-everything"))
        ),
        program(
            "files",
            &format!("\"{}\", \"{folder}\"", package("server-filesystem"))
        ),
    );
    stage.agents_ask(&model.url, &servers);
    let dev = stage.client("dev");
    let documents = documents(&url);
    let files: Vec<(&str, &str)> = documents
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    dev.deploy(&files).await;
    stage.keep(stage.agent(&stage.url));

    let id = dev.start("errand", json!({})).await;
    let ended = dev.ended(&id).await;
    assert_eq!(ended["outputs"]["answer"], "all done", "{ended}");
    let read = answers(&model.asked()[1]);
    let expected = ["near", "42", "far", "23", "the order is A-7"];
    for (answer, part) in read.iter().zip(expected) {
        assert!(answer.contains(part), "no {part} in {answer}");
    }
    let journal = dev.journal(&id).await;
    let outside: Vec<&Value> = journal
        .iter()
        .filter(|step| step["state"] == "FAILED")
        .map(|step| &step["toolRef"])
        .collect();
    assert_eq!(
        outside,
        [&json!("files/read_text_file")],
        "a file outside its folder is refused by the server"
    );
    let copy = std::fs::read_to_string(format!("{folder}/copy.txt")).expect("the copy");
    assert!(copy.contains("the order is A-7"), "{copy}");
}

async fn everything_over_http(stage: &Stage, port: u16) -> Process {
    let mut command = std::process::Command::new("node");
    command
        .args([package("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string());
    let process = Process::start("everything", &mut command, &stage.path().join("logs"));
    until("the server to listen", async || {
        process.log().contains("listening").then_some(())
    })
    .await;
    process
}
