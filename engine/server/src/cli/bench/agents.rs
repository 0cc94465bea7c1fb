//! Agents: what an agent worker does, without a model. Each starts an instance, leases its task and writes the journal:
//! a model turn that asks for one call, then that call, and so on.

use anyhow::Context;
use futures::future::try_join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::http::{Connection, Target};
use super::load::Span;
use super::times::{Part, Times, micros};
use super::{Scenario, documents, usage};

/// Model turns of C and the calls of each: 100 steps in a row.
const TURNS: u32 = 20;
const CALLS: u32 = 4;

/// Delegations of one instance of D.
const DELEGATIONS: u32 = 20;

#[derive(Deserialize)]
struct Fetched {
    tasks: Vec<Leased>,
}

#[derive(Deserialize)]
struct Leased {
    id: String,
    attempt: u32,
}

/// One agent: a connection for its calls, another for the poll that waits for what comes back.
struct Agent {
    calls: Connection,
    polls: Connection,
    worker: String,
    task: Leased,
    /// Micros of each measured thing, with the time of its end.
    times: Vec<(u64, u64)>,
}

pub async fn run(target: &Target, scenario: Scenario, seconds: f64, agents: usize) -> anyhow::Result<Part> {
    let span = Span::begin(seconds);
    let running = try_join_all((0..agents).map(|number| agent(target, scenario, number, span)));
    let announcing = async { anyhow::Ok(span.announce().await) };
    let (times, cpu) = tokio::try_join!(running, announcing)?;
    let micros: Vec<u64> = times.into_iter().flatten().collect();
    Ok(Part {
        finished: micros.len() as u64,
        seconds: span.seconds(),
        times: Times::of(micros),
        cpu_seconds: usage::cpu_seconds(std::process::id()).unwrap_or_default() - cpu,
    })
}

async fn agent(target: &Target, scenario: Scenario, number: usize, span: Span) -> anyhow::Result<Vec<u64>> {
    let mut agent = Agent {
        calls: Connection::open(target).await?,
        polls: Connection::open(target).await?,
        worker: format!("bench-agent-{number}"),
        task: Leased {
            id: String::new(),
            attempt: 0,
        },
        times: Vec::new(),
    };
    let mut instances = 0;
    while !span.is_over() {
        instances += 1;
        match scenario {
            Scenario::D => agent.delegates(instances, span).await?,
            _ => agent.journals(instances, span).await?,
        }
    }
    let measured = agent.times.iter().filter(|(_, end)| span.holds(*end));
    Ok(measured.map(|(micros, _)| *micros).collect())
}

impl Agent {
    /// One instance of C: 100 steps in a row, each STARTED and COMPLETED by a call of its own.
    async fn journals(&mut self, number: u64, span: Span) -> anyhow::Result<()> {
        self.begin(documents::JOURNAL, number).await?;
        for turn in 0..TURNS {
            if span.is_over() {
                break;
            }
            let first = turn * (CALLS + 1) + 1;
            let arguments: Vec<String> = (0..CALLS)
                .map(|call| format!(r#"{{"order":"ORD-{turn:04}{call:04}"}}"#))
                .collect();
            let mut began = micros();
            let base = first.checked_sub(CALLS + 1);
            self.turn(first, base, "bench__look_up", &arguments).await?;
            began = self.took(began);
            for (index, arguments) in arguments.iter().enumerate() {
                let call = call(first, index, "TOOL", "bench/look_up", arguments);
                self.step(&format!(r#""state":"STARTED",{call}"#)).await?;
                self.step(&format!(
                    r#""state":"COMPLETED",{call},"result":{{"status":"shipped","carrier":"post","lines":[{{"article":"A-17","count":2}},{{"article":"B-4","count":1}}]}}"#
                ))
                .await?;
                began = self.took(began);
            }
        }
        self.complete().await
    }

    /// Notes a step that ended now, and gives the time.
    fn took(&mut self, began: u64) -> u64 {
        let ended = micros();
        self.times.push((ended - began, ended));
        ended
    }

    /// One instance of D: from STARTED to the lease that the child's end gives back.
    async fn delegates(&mut self, number: u64, span: Span) -> anyhow::Result<()> {
        self.begin(documents::DELEGATES, number).await?;
        for turn in 0..DELEGATIONS {
            if span.is_over() {
                break;
            }
            let sequence = turn * 2 + 1;
            let arguments = [documents::variables(u64::from(turn))];
            let base = sequence.checked_sub(2);
            self.turn(sequence, base, "delegate__bench_one_task", &arguments)
                .await?;
            let call = call(
                sequence,
                0,
                "DELEGATION",
                "delegate:bench_one_task",
                &arguments[0],
            );
            let body = self.body(&format!(r#""state":"STARTED",{call}"#));
            let path = format!("/v1/external-tasks/{}/steps", self.task.id);
            let poll = fetch(&self.worker, &self.task.id, sequence + 1);
            let began = micros();
            // The poll waits while the call is made, as an agent worker's does.
            let started = self.calls.post::<IgnoredAny>(&path, &body);
            let polled = self.polls.post::<Fetched>(FETCH, &poll);
            let (_, fetched) = tokio::try_join!(started, polled)?;
            self.took(began);
            self.task = only(fetched)?;
        }
        self.complete().await
    }

    /// Starts an instance and leases its task.
    async fn begin(&mut self, process: &str, number: u64) -> anyhow::Result<()> {
        let body = documents::start(process, number);
        self.calls.post::<IgnoredAny>("/v1/instances", &body).await?;
        let poll = fetch(&self.worker, "none", 0);
        self.task = only(self.calls.post(FETCH, &poll).await?)?;
        Ok(())
    }

    /// A model turn that asks for some calls.
    async fn turn(
        &mut self,
        sequence: u32,
        base: Option<u32>,
        tool: &str,
        arguments: &[String],
    ) -> anyhow::Result<()> {
        let base = base.map_or_else(String::new, |base| format!(r#""base":{base},"#));
        let calls: Vec<String> = arguments
            .iter()
            .enumerate()
            .map(|(index, arguments)| {
                format!(r#"{{"tool":"{tool}","arguments":{arguments},"callId":"c{sequence}-{index}"}}"#)
            })
            .collect();
        let turn = format!(
            r#""sequence":{sequence},"kind":"MODEL","toolRef":"model:bench","request":{{{base}"added":[{{"role":"user","text":"What is known of the order, and what is to be done?"}}]}}"#
        );
        self.step(&format!(r#""state":"STARTED",{turn}"#)).await?;
        self.step(&format!(
            r#""state":"COMPLETED",{turn},"result":{{"text":"Let me see.","calls":[{}],"usage":{{"inputTokens":812,"outputTokens":44}},"model":"bench"}}"#,
            calls.join(",")
        ))
        .await
    }

    async fn step(&mut self, fields: &str) -> anyhow::Result<()> {
        let path = format!("/v1/external-tasks/{}/steps", self.task.id);
        let body = self.body(fields);
        self.calls.post::<IgnoredAny>(&path, &body).await?;
        Ok(())
    }

    fn body(&self, fields: &str) -> String {
        format!(
            r#"{{"workerId":"{}","attempt":{},{fields}}}"#,
            self.worker, self.task.attempt
        )
    }

    async fn complete(&mut self) -> anyhow::Result<()> {
        let path = format!("/v1/external-tasks/{}/complete", self.task.id);
        let body = format!(r#"{{"workerId":"{}","result":"done"}}"#, self.worker);
        self.calls.post::<IgnoredAny>(&path, &body).await?;
        Ok(())
    }
}

const FETCH: &str = "/v1/external-tasks/fetch-and-lock";

fn fetch(worker: &str, lease: &str, have: u32) -> String {
    let task = lease.split('~').next().unwrap_or(lease);
    format!(
        r#"{{"workerId":"{worker}","topics":["agent"],"lockDuration":30000,"maxTasks":1,"longPollMs":30000,"have":{{"{task}":{have}}}}}"#
    )
}

fn only(fetched: Fetched) -> anyhow::Result<Leased> {
    let mut tasks = fetched.tasks.into_iter();
    tasks.next().context("no task came within 30 s")
}

/// What STARTED and COMPLETED of a turn's call say alike.
fn call(turn: u32, index: usize, kind: &str, target: &str, arguments: &str) -> String {
    let sequence = turn as usize + index + 1;
    format!(
        r#""sequence":{sequence},"kind":"{kind}","toolRef":"{target}","call":{{"step":{turn},"index":{index}}},"request":{{"callId":"c{turn}-{index}","arguments":{arguments}}}"#
    )
}
