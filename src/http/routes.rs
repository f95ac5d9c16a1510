//! The one route table. A path, what it needs and what it may carry stand in one row; what is not
//! here does not exist.

use super::route::{Guard, Method, Route};
use crate::model::limits::{
    ACCESS_BODY_BYTES_MAX, MUTATION_BODY_BYTES_MAX, SECRET_BODY_BYTES_MAX, TASK_BODY_BYTES_MAX,
};
use crate::model::policy::Permission;

macro_rules! route {
    ($method:ident $template:literal, $operation:literal, $guard:expr, $query:expr, $body:expr) => {
        Route {
            method: Method::$method,
            template: $template,
            operation: $operation,
            guard: $guard,
            query: &$query,
            body_bytes_max: $body,
        }
    };
}

use Guard::{Holds, Public};
use Permission as P;

/// Every route. The first parameter of a guarded one is the project.
#[rustfmt::skip]
pub static ROUTES: [Route; 30] = [
    route!(Get "/api/health", "system.health", Public, [], 0),
    route!(Get "/api/v3/capabilities", "system.capabilities", Public, [], 0),
    route!(Get "/api/v3/projects/{project}/status", "project.status", Holds(P::ProjectRead), [], 0),
    route!(Get "/api/v3/projects/{project}/tasks", "task.list", Holds(P::TaskRead), ["limit", "after_task_id"], 0),
    route!(Get "/api/v3/projects/{project}/tasks/{task}", "task.get", Holds(P::TaskRead), [], 0),
    route!(Put "/api/v3/projects/{project}/tasks/{task}", "task.put", Holds(P::TaskUpdate), [], TASK_BODY_BYTES_MAX),
    route!(Delete "/api/v3/projects/{project}/tasks/{task}", "task.delete", Holds(P::TaskDelete), [], MUTATION_BODY_BYTES_MAX),
    route!(Post "/api/v3/projects/{project}/tasks/{task}/runs", "task.start", Holds(P::RunStart), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/triggers", "trigger.list", Holds(P::TaskRead), ["limit", "after_trigger_id"], 0),
    route!(Get "/api/v3/projects/{project}/triggers/{trigger}", "trigger.get", Holds(P::TaskRead), [], 0),
    route!(Put "/api/v3/projects/{project}/triggers/{trigger}", "trigger.put", Holds(P::TaskUpdate), [], ACCESS_BODY_BYTES_MAX),
    route!(Delete "/api/v3/projects/{project}/triggers/{trigger}", "trigger.delete", Holds(P::TaskDelete), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/runs", "run.list", Holds(P::RunRead),
        ["limit", "after_created_at_ms", "after_run_id", "task", "status"], 0),
    route!(Get "/api/v3/projects/{project}/runs/{run}", "run.get", Holds(P::RunRead), ["attempt"], 0),
    route!(Get "/api/v3/projects/{project}/runs/{run}/events", "run.events.list", Holds(P::RunRead), ["after_sequence", "limit"], 0),
    route!(Post "/api/v3/projects/{project}/runs/{run}/cancellation", "run.cancel", Holds(P::RunStop), [], MUTATION_BODY_BYTES_MAX),
    route!(Post "/api/v3/projects/{project}/runs/{run}/retry", "run.retry", Holds(P::RunRetry), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/runs/{run}/evidence", "run.evidence", Holds(P::RunRead), [], 0),
    route!(Post "/api/v3/projects/{project}/runs/{run}/resolution", "run.resolve", Holds(P::PolicyManage), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/runs/{run}/attempts/{attempt}/log", "run.log.read", Holds(P::ArtifactRead),
        ["offset", "length"], 0),
    route!(Get "/api/v3/projects/{project}/secrets", "secret.list", Holds(P::SecretManage), ["limit", "after_name"], 0),
    route!(Put "/api/v3/projects/{project}/secrets", "secret.put", Holds(P::SecretManage), [], SECRET_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/secrets/{secret}", "secret.get", Holds(P::SecretManage), [], 0),
    route!(Delete "/api/v3/projects/{project}/secrets/{secret}", "secret.delete", Holds(P::SecretManage), [], MUTATION_BODY_BYTES_MAX),
    route!(Post "/api/v3/projects/{project}/keyring/rotation", "secret.rekey", Holds(P::SecretManage), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/access", "access.list", Holds(P::PolicyManage), ["after_subject"], 0),
    route!(Put "/api/v3/projects/{project}/access", "access.bind", Holds(P::PolicyManage), [], ACCESS_BODY_BYTES_MAX),
    route!(Post "/api/v3/projects/{project}/access/tokens", "credential.create", Holds(P::PolicyManage), [], ACCESS_BODY_BYTES_MAX),
    route!(Post "/api/v3/projects/{project}/access/tokens/{credential}/revocation", "credential.revoke",
        Holds(P::PolicyManage), [], MUTATION_BODY_BYTES_MAX),
    route!(Get "/api/v3/projects/{project}/audit", "audit.list", Holds(P::PolicyManage), ["limit", "after"], 0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_do_not_overlap_and_reads_carry_no_body() {
        let shape = |route: &Route| {
            let segments = route.template.split('/').map(|s| if s.starts_with('{') { "{}" } else { s });
            (format!("{:?}", route.method), segments.collect::<Vec<_>>().join("/"))
        };
        assert_eq!(ROUTES.iter().map(shape).collect::<BTreeSet<_>>().len(), ROUTES.len());
        assert_eq!(ROUTES.iter().map(|r| r.operation).collect::<BTreeSet<_>>().len(), ROUTES.len());
        for route in &ROUTES {
            assert_eq!(route.method == Method::Get, route.body_bytes_max == 0, "{}", route.operation);
            let guarded = route.guard != Public;
            assert_eq!(guarded, route.template.starts_with("/api/v3/projects/{project}/"), "{}", route.operation);
        }
    }
}
