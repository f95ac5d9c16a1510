//! Who may do what: subjects, roles, permissions and the fences that hold a decision to the
//! moment it was made (spec/control section 1, design D13).

use super::limits;
use super::name::Name;
use std::fmt;

/// What kind of actor a subject is. Only the first four may hold a credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    /// A person.
    User,
    /// A program with a credential of its own.
    ApiApp,
    /// A model-context client.
    McpClient,
    /// An agent that acts for a person.
    Agent,
    /// The runtime itself, in audit rows of local commands.
    System,
}

impl SubjectKind {
    /// The stored and shown word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ApiApp => "api_app",
            Self::McpClient => "mcp_client",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "user" => Self::User,
            "api_app" => Self::ApiApp,
            "mcp_client" => Self::McpClient,
            "agent" => Self::Agent,
            "system" => Self::System,
            _ => return None,
        })
    }
}

/// One actor: a kind and an id of 1..=255 characters without control characters.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its id within the kind.
    pub id: Box<str>,
}

impl Subject {
    /// Checks an id; `None` when it is empty, too long or has control characters.
    pub fn new(kind: SubjectKind, id: &str) -> Option<Self> {
        let good = !id.is_empty() && id.len() <= limits::SUBJECT_ID_BYTES_MAX && !id.chars().any(char::is_control);
        good.then(|| Self { kind, id: id.into() })
    }

    /// Reads `kind:id` as the command line writes it; without a kind it is a user.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':').map(|(kind, id)| (SubjectKind::parse(kind), id)) {
            Some((Some(kind), id)) => Self::new(kind, id),
            _ => Self::new(SubjectKind::User, text),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.id)
    }
}

/// What a subject is in a project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// May do everything.
    Owner,
    /// Everything but managing the project itself.
    Admin,
    /// May define, start and stop tasks.
    Operator,
    /// May look.
    Viewer,
}

impl Role {
    /// Every role, strongest first.
    pub const ALL: [Self; 4] = [Self::Owner, Self::Admin, Self::Operator, Self::Viewer];

    /// The stored and shown word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == text)
    }

    /// Whether this role holds `permission`: the table of spec/control section 1.
    pub const fn holds(self, permission: Permission) -> bool {
        let held = PERMISSIONS[permission as usize];
        match self {
            Self::Owner => held[0],
            Self::Admin => held[1],
            Self::Operator => held[2],
            Self::Viewer => held[3],
        }
    }
}

/// One right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// See the project and its status.
    ProjectRead,
    /// Give and take the owner role; copy the whole state.
    ProjectManage,
    /// See tasks.
    TaskRead,
    /// Define tasks.
    TaskCreate,
    /// Change, enable and disable tasks.
    TaskUpdate,
    /// Delete tasks.
    TaskDelete,
    /// See Runs and events.
    RunRead,
    /// Start tasks.
    RunStart,
    /// Stop Runs.
    RunStop,
    /// Start ended Runs again.
    RunRetry,
    /// Read logs.
    ArtifactRead,
    /// Name secrets in tasks.
    SecretUse,
    /// Set and delete secrets.
    SecretManage,
    /// Grant roles, make tokens, read the audit.
    PolicyManage,
}

impl Permission {
    /// Every permission, in the table's order.
    pub const ALL: [Self; 14] = [
        Self::ProjectRead,
        Self::ProjectManage,
        Self::TaskRead,
        Self::TaskCreate,
        Self::TaskUpdate,
        Self::TaskDelete,
        Self::RunRead,
        Self::RunStart,
        Self::RunStop,
        Self::RunRetry,
        Self::ArtifactRead,
        Self::SecretUse,
        Self::SecretManage,
        Self::PolicyManage,
    ];

    /// The name in records and audit rows.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ProjectRead => "project.read",
            Self::ProjectManage => "project.manage",
            Self::TaskRead => "task.read",
            Self::TaskCreate => "task.create",
            Self::TaskUpdate => "task.update",
            Self::TaskDelete => "task.delete",
            Self::RunRead => "run.read",
            Self::RunStart => "run.start",
            Self::RunStop => "run.stop",
            Self::RunRetry => "run.retry",
            Self::ArtifactRead => "artifact.read",
            Self::SecretUse => "secret.use",
            Self::SecretManage => "secret.manage",
            Self::PolicyManage => "policy.manage",
        }
    }

    /// The four plain reads, which an archived project still allows.
    pub const fn is_plain_read(self) -> bool {
        matches!(self, Self::ProjectRead | Self::TaskRead | Self::RunRead | Self::ArtifactRead)
    }
}

#[rustfmt::skip]
const PERMISSIONS: [[bool; 4]; Permission::ALL.len()] = [
    //                    owner  admin  operator viewer
    /* project.read */   [true,  true,  true,    true],
    /* project.manage */ [true,  false, false,   false],
    /* task.read */      [true,  true,  true,    true],
    /* task.create */    [true,  true,  true,    false],
    /* task.update */    [true,  true,  true,    false],
    /* task.delete */    [true,  true,  false,   false],
    /* run.read */       [true,  true,  true,    true],
    /* run.start */      [true,  true,  true,    false],
    /* run.stop */       [true,  true,  true,    false],
    /* run.retry */      [true,  true,  true,    false],
    /* artifact.read */  [true,  true,  true,    true],
    /* secret.use */     [true,  true,  true,    false],
    /* secret.manage */  [true,  true,  false,   false],
    /* policy.manage */  [true,  true,  false,   false],
];

/// What a decision was based on; every mutation checks it again inside its own transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence {
    /// The project's version.
    pub project_version: i64,
    /// The subject's role binding's version.
    pub binding_version: i64,
}

/// Who asks, proven, and what the proof was worth at the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authority {
    /// The project asked about.
    pub project: Name,
    /// Who asks.
    pub subject: Subject,
    /// The credential that proved it.
    pub credential_id: Box<str>,
    /// That credential's version.
    pub credential_version: i64,
    /// When the proof ends, in epoch milliseconds, if the credential expires and the clock was
    /// believed when it was proven.
    pub valid_until_ms: Option<i64>,
    /// The decision's basis.
    pub fence: Fence,
}

/// A subject's standing in a project, as read for one decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The project's version and whether it is active, if there is one.
    pub project: Option<(i64, bool)>,
    /// The latest binding's version and its role (`None` = revoked), if there ever was one.
    pub binding: Option<(i64, Option<Role>)>,
}

/// Why a decision was no. The words go to the audit, never to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// No such project.
    ProjectNotFound,
    /// The project is archived and this is not a plain read.
    ProjectArchived,
    /// No binding, or a revoked one.
    SubjectUnbound,
    /// The role does not hold the permission.
    PermissionMissing,
    /// An agent may not do this without a person's approval.
    AgentNeedsApproval,
}

impl Denial {
    /// The stored reason.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ProjectNotFound => "project_not_found",
            Self::ProjectArchived => "project_archived",
            Self::SubjectUnbound => "subject_unbound",
            Self::PermissionMissing => "permission_missing",
            Self::AgentNeedsApproval => "agent_action_requires_approval",
        }
    }
}

/// Decides. Deny is the default; agents only read (spec/control section 1).
pub fn decide(subject: &Subject, standing: Standing, permission: Permission) -> Result<Fence, Denial> {
    let (project_version, active) = standing.project.ok_or(Denial::ProjectNotFound)?;
    let (binding_version, role) = standing.binding.ok_or(Denial::SubjectUnbound)?;
    let role = role.ok_or(Denial::SubjectUnbound)?;
    if !role.holds(permission) {
        return Err(Denial::PermissionMissing);
    }
    if !active && !permission.is_plain_read() {
        return Err(Denial::ProjectArchived);
    }
    if subject.kind == SubjectKind::Agent && !permission.is_plain_read() {
        return Err(Denial::AgentNeedsApproval);
    }
    Ok(Fence { project_version, binding_version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: SubjectKind) -> Subject {
        Subject::new(kind, "x").unwrap()
    }

    #[test]
    fn policy_matrix_archived_unbound_agent() {
        let user = subject(SubjectKind::User);
        for permission in Permission::ALL {
            for role in Role::ALL {
                let standing = |active| Standing { project: Some((3, active)), binding: Some((5, Some(role))) };
                let held = role.holds(permission);
                let want = Ok(Fence { project_version: 3, binding_version: 5 });
                let no = Err(Denial::PermissionMissing);
                assert_eq!(decide(&user, standing(true), permission), if held { want } else { no });
                let archived = match (held, permission.is_plain_read()) {
                    (false, _) => no,
                    (true, true) => want,
                    (true, false) => Err(Denial::ProjectArchived),
                };
                assert_eq!(decide(&user, standing(false), permission), archived);
                let agent = decide(&subject(SubjectKind::Agent), standing(true), permission);
                assert_eq!(agent.is_ok(), held && permission.is_plain_read());
            }
            for binding in [None, Some((9, None))] {
                let standing = Standing { project: Some((1, true)), binding };
                assert_eq!(decide(&user, standing, permission), Err(Denial::SubjectUnbound));
            }
            let standing = Standing { project: None, binding: Some((1, Some(Role::Owner))) };
            assert_eq!(decide(&user, standing, permission), Err(Denial::ProjectNotFound));
        }
    }

    #[test]
    fn a_subject_on_the_command_line_is_a_user_unless_it_says_otherwise() {
        assert_eq!(Subject::parse("alice").unwrap().to_string(), "user:alice");
        assert_eq!(Subject::parse("api_app:panel").unwrap().to_string(), "api_app:panel");
        assert_eq!(Subject::parse("a:b").unwrap().to_string(), "user:a:b");
        assert!(Subject::parse("").is_none());
        assert!(Subject::parse("a\nb").is_none());
    }
}
