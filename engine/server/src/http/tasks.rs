//! `/v1/tasks`: what people do. Human tasks and approvals (D18, D45, D46).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use legation_kernel::commands::{self, Command};
use legation_kernel::dates::rfc3339;
use legation_kernel::effect::{HumanKind, HumanTask};
use legation_kernel::ids::{TaskId, root_of};
use legation_kernel::journal::{Step, StepKind};
use legation_language::Value;
use legation_language::model::NodeKind;
use legation_protocol::keys::PrincipalKind;
use legation_protocol::tasks::{
    ApprovalSubject, Candidates, CommentRule, CompleteTaskRequest, DecisionAnswer, DecisionRequest,
    HumanTaskKind, HumanTaskList, HumanTaskQuery, HumanTaskState, HumanTaskView, TaskOutcome,
};
use legation_store::instances::{self, InstanceRow};
use legation_store::tasks::{self, TaskFilter, TaskRow};
use legation_store::{Conn, Key, steps};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::{Error, Result};
use super::extract::{Id, Json, Query, values};
use super::load::{self, Wanted};
use super::models;
use super::page;
use super::views;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(decide))
        .routes(routes!(complete))
}

/// Human tasks and approvals, newest first; the open ones unless another state is asked for.
#[utoipa::path(get, path = "/v1/tasks", tag = "people", params(HumanTaskQuery),
    responses((status = 200, body = HumanTaskList)))]
async fn list(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<HumanTaskQuery>,
) -> Result<Answer<HumanTaskList>> {
    let mine = match query.audience.as_deref() {
        Some("me") => true,
        Some(_) => return Err(Error::invalid("`for` is `me` or left out").argument("for")),
        None => false,
    };
    if !mine || who.principal.kind == PrincipalKind::Worker {
        who.need(Role::Read)?;
    }
    let limit = page::limit(query.limit)?;
    let state = query.state.unwrap_or(HumanTaskState::Open);
    let filter = TaskFilter {
        project: who.project().to_owned(),
        candidates: (mine && !who.principal.is_in_every_group()).then(|| candidates(&who)),
        kind: query.kind.map(|kind| column(kind).to_owned()),
        state: Some(state_column(state).to_owned()),
        open_only: state == HumanTaskState::Open,
        instance: query.instance_id.as_deref().map(|id| Key::new(root_of(id), id)),
        after: page::place(query.after.as_deref())?,
        limit,
    };
    let mut read = http.app().db().read().await?;
    let rows = tasks::list(&mut read, &filter).await?;
    let next = rows
        .last()
        .filter(|_| rows.len() as i64 == limit)
        .map(|row| page::cursor(&row.place()));
    let mut list = Vec::new();
    for row in &rows {
        list.push(view(&http, &mut read, row).await?);
    }
    Ok(Answer(HumanTaskList { tasks: list, next }))
}

/// One task, with the exact inputs that a decision is about.
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "people", params(("id" = String, Path)),
    responses((status = 200, body = HumanTaskView)))]
async fn get(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<HumanTaskView>> {
    let mut read = http.app().db().read().await?;
    let row = find(&mut read, &who, &id).await?;
    view(&http, &mut read, &row).await.map(Answer)
}

/// Decides an approval, or completes a human task by one of its outcomes.
#[utoipa::path(post, path = "/v1/tasks/{id}/decision", tag = "people", params(("id" = String, Path)),
    request_body = DecisionRequest, responses((status = 200, body = DecisionAnswer)))]
async fn decide(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Json(body): Json<DecisionRequest>,
) -> Result<Answer<DecisionAnswer>> {
    let row = for_deciding(&http, &who, &id).await?;
    let command = match &row.external_task {
        Some(task) => Command::Decide {
            human: id.clone(),
            task: TaskId(task.clone()),
            person: who.person(&groups(&row)),
            approved: approved(&body.outcome)?,
            comment: body.comment,
            digest: body.digest,
        },
        None => Command::CompleteHuman {
            human: id.clone(),
            person: who.person(&groups(&row)),
            outcome: Some(body.outcome.clone()),
            variables: std::collections::BTreeMap::new(),
            comment: body.comment,
        },
    };
    run(&http, &who, id, command, Some(body.outcome)).await
}

/// Completes a human task with its form.
#[utoipa::path(post, path = "/v1/tasks/{id}/complete", tag = "people", params(("id" = String, Path)),
    request_body = CompleteTaskRequest, responses((status = 200, body = DecisionAnswer)))]
async fn complete(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Json(body): Json<CompleteTaskRequest>,
) -> Result<Answer<DecisionAnswer>> {
    let row = for_deciding(&http, &who, &id).await?;
    if row.external_task.is_some() {
        let refusal = Error::new(
            StatusCode::CONFLICT,
            "APPROVAL_IS_DECIDED",
            "an approval is decided, not completed",
        );
        return Err(refusal.hint(format!("POST /v1/tasks/{id}/decision")));
    }
    let command = Command::CompleteHuman {
        human: id.clone(),
        person: who.person(&groups(&row)),
        outcome: body.outcome.clone(),
        variables: values(&body.variables)?,
        comment: body.comment,
    };
    run(&http, &who, id, command, body.outcome).await
}

/// The task that somebody wants to decide. A worker's key is refused before anything is looked up (D45).
async fn for_deciding(http: &Http, who: &Who, id: &str) -> Result<TaskRow> {
    if who.principal.kind == PrincipalKind::Worker {
        return Err(Error::forbidden(
            "WORKER_MAY_NOT_DECIDE",
            "a worker's key never decides",
        ));
    }
    let mut read = http.app().db().read().await?;
    find(&mut read, who, id).await
}

/// A task that the caller may know of: everything with the role `read`, else what is meant for them. Else 404.
async fn find(read: &mut Conn, who: &Who, id: &str) -> Result<TaskRow> {
    let unknown = || Error::not_found(format!("no task {id}"));
    let row = tasks::get(read, root_of(id), id)
        .await?
        .filter(|row| row.project == who.project())
        .ok_or_else(unknown)?;
    if who.principal.has(Role::Read) || is_for(&row, who) {
        Ok(row)
    } else {
        Err(unknown())
    }
}

fn is_for(row: &TaskRow, who: &Who) -> bool {
    users(row).contains(&who.principal.id) || groups(row).iter().any(|group| who.principal.is_in(group))
}

fn groups(row: &TaskRow) -> Vec<String> {
    serde_json::from_str(&row.groups).unwrap_or_default()
}

fn users(row: &TaskRow) -> Vec<String> {
    serde_json::from_str(&row.users).unwrap_or_default()
}

fn approved(outcome: &str) -> Result<bool> {
    match outcome {
        "approved" => Ok(true),
        "rejected" => Ok(false),
        _ => Err(Error::out_of_range(
            "outcome",
            "an approval is `approved` or `rejected`",
        )),
    }
}

async fn run(
    http: &Http,
    who: &Who,
    id: String,
    command: Command,
    outcome: Option<String>,
) -> Result<Answer<DecisionAnswer>> {
    match http.app().run(&who.sender(), command).await? {
        commands::Answer::Decided { child } => Ok(Answer(DecisionAnswer {
            id,
            state: HumanTaskState::Completed,
            outcome,
            child_instance_id: child.map(|child| child.0),
        })),
        other => Err(Error::internal(&format!("a decision answered {other:?}"))),
    }
}

fn candidates(who: &Who) -> Vec<String> {
    let groups = who.principal.groups.iter().map(|group| format!("group:{group}"));
    std::iter::once(format!("user:{}", who.principal.id))
        .chain(groups)
        .collect()
}

fn column(kind: HumanTaskKind) -> &'static str {
    match kind {
        HumanTaskKind::Human => "human",
        HumanTaskKind::Approval => "approval",
    }
}

fn state_column(state: HumanTaskState) -> &'static str {
    match state {
        HumanTaskState::Open => "OPEN",
        HumanTaskState::Completed => "COMPLETED",
        HumanTaskState::Cancelled => "CANCELLED",
        HumanTaskState::Expired => "EXPIRED",
    }
}

fn state_of(column: &str) -> HumanTaskState {
    match column {
        "OPEN" => HumanTaskState::Open,
        "COMPLETED" => HumanTaskState::Completed,
        "EXPIRED" => HumanTaskState::Expired,
        _ => HumanTaskState::Cancelled,
    }
}

async fn view(http: &Http, read: &mut Conn, row: &TaskRow) -> Result<HumanTaskView> {
    let human: HumanTask = load::parse("tasks", &row.id, &row.body)?;
    let instance = instances::get(read, &row.root, &row.instance).await?;
    let instance =
        instance.ok_or_else(|| Error::internal(&format!("the instance of task {} is gone", row.id)))?;
    let owner = human
        .task
        .as_ref()
        .map_or(human.instance.as_str(), TaskId::as_str);
    let wanted: Vec<Wanted> = human
        .inputs
        .iter()
        .map(|inputs| Wanted::new(owner, inputs))
        .collect();
    let values = load::values(http, read, &wanted).await?;
    let inputs = human
        .inputs
        .as_ref()
        .and_then(|inputs| values.get(&inputs.digest))
        .cloned()
        .unwrap_or_default();
    let approval = match human.kind {
        HumanKind::Approval => subject(http, read, &human, &instance, &inputs).await?,
        HumanKind::Human => None,
    };
    let is_approval = human.kind == HumanKind::Approval;
    let target = human.target.clone().unwrap_or_else(|| row.node.clone());
    Ok(HumanTaskView {
        id: row.id.clone(),
        kind: if is_approval {
            HumanTaskKind::Approval
        } else {
            HumanTaskKind::Human
        },
        state: state_of(&row.state),
        title: if is_approval {
            format!("Approve {target} for {}", row.node)
        } else {
            target
        },
        description: None,
        instance_id: row.instance.clone(),
        instance_key: views::instances::key(&instance),
        process: instance.process.clone(),
        node_id: row.node.clone(),
        candidates: Candidates {
            groups: human.groups.clone(),
            users: human.users.clone(),
        },
        assignee: None,
        outcomes: human.outcomes.iter().map(outcome).collect(),
        form: human.form.as_ref().map(views::raw).transpose()?,
        variables: if is_approval {
            Default::default()
        } else {
            views::named(&inputs)?
        },
        approval,
        due_at: row.due_at.map(rfc3339),
        expires_at: None,
        created_at: rfc3339(row.created_at),
        ended_at: row.ended_at.map(rfc3339),
        outcome: row.outcome.clone(),
        decided_by: row.decided_by.clone(),
        comment: row.comment.clone(),
    })
}

fn outcome(outcome: &legation_kernel::effect::Outcome) -> TaskOutcome {
    TaskOutcome {
        name: outcome.name.clone(),
        label: outcome.label.clone(),
        comment: match outcome.comment.as_str() {
            "none" => CommentRule::None,
            "required" => CommentRule::Required,
            _ => CommentRule::Optional,
        },
    }
}

/// The step that an approval is about: who asks, for what exactly.
async fn subject(
    http: &Http,
    read: &mut Conn,
    human: &HumanTask,
    instance: &InstanceRow,
    inputs: &Value,
) -> Result<Option<ApprovalSubject>> {
    let (Some(task), Some(attempt), Some(sequence)) = (&human.task, human.attempt, human.sequence) else {
        return Ok(None);
    };
    let rows = steps::list_for_tasks(read, &[Key::new(task.root(), task.as_str())]).await?;
    let list = rows.iter().map(load::step).collect::<Result<Vec<Step>>>()?;
    let step = list
        .iter()
        .find(|step| step.attempt == attempt && step.sequence == sequence);
    let Some(step) = step else { return Ok(None) };
    let before = list
        .iter()
        .rev()
        .filter(|other| other.attempt == attempt && other.sequence < sequence);
    let model = before
        .clone()
        .find_map(|turn| turn.tool_ref.strip_prefix("model:"));
    let version = u32::try_from(instance.version).unwrap_or_default();
    let definitions = &http.app().shared().definitions;
    let definition = definitions
        .find(read, &instance.project, &instance.process, Some(version))
        .await?;
    let node = definition
        .as_ref()
        .and_then(|definition| definition.node(&human.node));
    let (delegates, prompt_version) = match node.map(|node| &node.kind) {
        Some(NodeKind::Agent(agent)) => (agent.delegates.as_slice(), Some(agent.prompt_version.clone())),
        Some(NodeKind::EngineTask(task)) => (task.delegates.as_slice(), None),
        Some(
            NodeKind::Start
            | NodeKind::End(_)
            | NodeKind::Decision(_)
            | NodeKind::Human(_)
            | NodeKind::CallProcess(_)
            | NodeKind::Exclusive(_)
            | NodeKind::Parallel(_)
            | NodeKind::Timer(_),
        )
        | None => (&[][..], None),
    };
    let target = step.tool_ref.strip_prefix("delegate:");
    let delegate = target.and_then(|process| delegates.iter().find(|delegate| delegate.process == process));
    let place = (task.0.clone(), attempt, sequence);
    let used_model = models::answered(http, read, &list, std::slice::from_ref(&place))
        .await?
        .remove(&place);
    Ok(Some(ApprovalSubject {
        node_id: human.node.clone(),
        task_id: task.0.clone(),
        attempt,
        sequence,
        kind: views::steps::kind(step.kind),
        tool_ref: step.tool_ref.clone(),
        version: delegate.map(|delegate| delegate.version),
        arguments: views::raw(inputs)?,
        policy: step
            .policy
            .filter(|_| step.kind == StepKind::Tool)
            .map(views::steps::policy),
        digest: human.digest.clone().unwrap_or_default(),
        model: model.map(str::to_owned),
        used_model,
        prompt_version,
    }))
}
