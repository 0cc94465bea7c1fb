//! `legation approve`, `reject` and `decide`: a person decides over exactly what was shown, and the digest of that
//! goes back with the decision (D46).

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use legation_protocol::tasks::{
    ApprovalSubject, DecisionAnswer, DecisionRequest, HumanTaskKind, HumanTaskList, HumanTaskState,
    HumanTaskView,
};

use super::client::{Client, Refusal, encode, query};
use super::print::{self, Ink};
use super::{Global, Shown, Usage, tasks};

#[derive(Args, Debug)]
pub struct ApproveArguments {
    /// The approval's id, or that of an instance with exactly one open approval.
    pub id: String,
    /// Why; the model reads it.
    #[arg(long)]
    pub comment: Option<String>,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct RejectArguments {
    /// The approval's id, or that of an instance with exactly one open approval.
    pub id: String,
    /// Why; the model reads it.
    #[arg(long)]
    pub comment: String,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct DecideArguments {
    /// The task's or approval's id, or that of an instance with exactly one open task.
    pub id: String,
    /// One of the task's outcomes.
    pub outcome: String,
    /// Why.
    #[arg(long)]
    pub comment: Option<String>,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

struct Decision {
    outcome: String,
    comment: Option<String>,
    yes: bool,
    kind: Option<HumanTaskKind>,
}

pub async fn approve(global: &Global, arguments: ApproveArguments) -> anyhow::Result<()> {
    let ApproveArguments { id, comment, yes } = arguments;
    let kind = Some(HumanTaskKind::Approval);
    send(
        global,
        &id,
        Decision {
            outcome: "approved".to_owned(),
            comment,
            yes,
            kind,
        },
    )
    .await
}

pub async fn reject(global: &Global, arguments: RejectArguments) -> anyhow::Result<()> {
    let RejectArguments { id, comment, yes } = arguments;
    let kind = Some(HumanTaskKind::Approval);
    send(
        global,
        &id,
        Decision {
            outcome: "rejected".to_owned(),
            comment: Some(comment),
            yes,
            kind,
        },
    )
    .await
}

pub async fn decide(global: &Global, arguments: DecideArguments) -> anyhow::Result<()> {
    let DecideArguments {
        id,
        outcome,
        comment,
        yes,
    } = arguments;
    send(
        global,
        &id,
        Decision {
            outcome,
            comment,
            yes,
            kind: None,
        },
    )
    .await
}

async fn send(global: &Global, id: &str, decision: Decision) -> anyhow::Result<()> {
    if !decision.yes && !std::io::stdin().is_terminal() {
        let outcome = &decision.outcome;
        return Err(Usage(format!(
            "nobody can be asked here, so `{outcome}` was not decided: pass --yes to decide without a question"
        ))
        .into());
    }
    let client = Client::new(global)?;
    let task = find(&client, id, decision.kind).await?;
    show(&task, Ink::stderr());
    anyhow::ensure!(
        task.state == HumanTaskState::Open,
        "{} is {} already{}",
        task.id,
        task.outcome
            .clone()
            .unwrap_or_else(|| print::word(&task.state).to_lowercase()),
        task.decided_by
            .as_ref()
            .map(|by| format!(", by {by}"))
            .unwrap_or_default()
    );
    if !decision.yes && !confirmed(&decision.outcome)? {
        tell!("nothing was decided");
        return Err(Shown.into());
    }
    let request = DecisionRequest {
        outcome: decision.outcome,
        comment: decision.comment,
        digest: task.approval.as_ref().map(|approval| approval.digest.clone()),
    };
    let answer = client
        .post::<DecisionAnswer>(&format!("/v1/tasks/{}/decision", encode(&task.id)), &request)
        .await?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    let outcome = answer.body.outcome.unwrap_or(request.outcome);
    let child = answer
        .body
        .child_instance_id
        .map(|child| format!("; it started {child}"))
        .unwrap_or_default();
    say!("{outcome} {}{child}", task.id);
    Ok(())
}

/// A task by its id, or the only open one of an instance.
pub async fn find(client: &Client, id: &str, kind: Option<HumanTaskKind>) -> anyhow::Result<HumanTaskView> {
    match client
        .get::<HumanTaskView>(&format!("/v1/tasks/{}", encode(id)))
        .await
    {
        Ok(task) => return of_kind(task.body, kind),
        Err(error) => match error.downcast_ref::<Refusal>() {
            Some(Refusal(problem)) if problem.status == 404 => {}
            _ => return Err(error),
        },
    }
    let kind_word = kind.map(|kind| print::word(&kind));
    let path = query(&[("instanceId", Some(id.to_owned())), ("kind", kind_word)]);
    let list = client
        .get::<HumanTaskList>(&format!("/v1/tasks{path}"))
        .await?
        .body
        .tasks;
    let noun = match kind {
        Some(HumanTaskKind::Approval) => "approval",
        Some(HumanTaskKind::Human) | None => "task",
    };
    match list.as_slice() {
        [task] => Ok(task.clone()),
        [] => Err(nothing(client, id, noun, kind).await),
        several => {
            let ids = several
                .iter()
                .map(|task| format!("  {} {}", task.id, task.title))
                .collect::<Vec<_>>();
            Err(Usage(format!(
                "instance {id} has {} open {noun}s; name one:\n{}",
                ids.len(),
                ids.join("\n")
            ))
            .into())
        }
    }
}

/// An approval is decided and a task completed: who names the other one learns the command for it.
fn of_kind(task: HumanTaskView, kind: Option<HumanTaskKind>) -> anyhow::Result<HumanTaskView> {
    if kind.is_none_or(|kind| kind == task.kind) {
        return Ok(task);
    }
    Err(Usage(format!("{} is {}", task.id, what_it_takes(&task))).into())
}

fn what_it_takes(task: &HumanTaskView) -> String {
    let id = &task.id;
    match task.kind {
        HumanTaskKind::Approval => format!(
            "an approval, which is decided: `legation approve {id}`, or `legation reject {id} --comment TEXT`"
        ),
        HumanTaskKind::Human => format!("a task, which is completed: `legation complete {id}`"),
    }
}

/// Nothing of this kind is open; what else is open in the instance is said.
async fn nothing(client: &Client, id: &str, noun: &str, kind: Option<HumanTaskKind>) -> anyhow::Error {
    let path = format!("/v1/tasks{}", query(&[("instanceId", Some(id.to_owned()))]));
    let open = client
        .get::<HumanTaskList>(&path)
        .await
        .map(|list| list.body.tasks);
    let other = open
        .unwrap_or_default()
        .iter()
        .find(|task| kind.is_some_and(|kind| kind != task.kind))
        .map(|task| format!("; {} is {}", task.id, what_it_takes(task)))
        .unwrap_or_default();
    anyhow::anyhow!(
        "there is no {noun} {id}, and no instance {id} with an open {noun} that you may see{other}"
    )
}

/// Who asks, for what exactly.
fn show(task: &HumanTaskView, ink: Ink) {
    tell!("{}", ink.bold(&task.title));
    if let Some(description) = &task.description {
        tell!("  {description}");
    }
    tell!("  process   {} {}", task.process, ink.dim(&task.instance_id));
    if let Some(approval) = &task.approval {
        subject(approval, ink);
    }
    for (name, value) in &task.variables {
        tell!("  {name:<9} {}", print::short(value, 200));
    }
    let who = tasks::candidates(task);
    if !who.is_empty() {
        tell!("  for       {who}");
    }
}

fn subject(approval: &ApprovalSubject, ink: Ink) {
    let ApprovalSubject {
        node_id,
        attempt,
        sequence,
        tool_ref,
        ..
    } = approval;
    let model = print::model(approval.model.as_deref(), approval.used_model.as_deref())
        .map(|model| format!(", model {model}"))
        .unwrap_or_default();
    let prompt = approval
        .prompt_version
        .as_ref()
        .map(|prompt| format!(", prompt {prompt}"))
        .unwrap_or_default();
    tell!("  asked by  {node_id}, step {attempt}.{sequence}{model}{prompt}");
    let version = approval
        .version
        .map(|version| format!(" version {version}"))
        .unwrap_or_default();
    tell!("  wants     {tool_ref}{version}");
    tell!("  with      {}", ink.bold(approval.arguments.get()));
    let policy = approval
        .policy
        .as_ref()
        .map_or_else(|| "approval required".to_owned(), print::word);
    tell!("  policy    {}", policy.replace('_', " "));
    tell!("  digest    {}", approval.digest);
}

/// Asks on a terminal.
fn confirmed(outcome: &str) -> anyhow::Result<bool> {
    eprint!("{} [y/N] ", question(outcome));
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn question(outcome: &str) -> String {
    match outcome {
        "approved" => "Approve exactly these inputs?".to_owned(),
        "rejected" => "Reject it?".to_owned(),
        other => format!("Decide `{other}`?"),
    }
}
