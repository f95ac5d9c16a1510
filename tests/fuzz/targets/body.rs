//! A request that has passed the gate: `METHOD target` on the first line, the body behind it. It goes
//! through query, JSON reader and handler as in the daemon, up to the store, which is closed: who gets so
//! far is told 503, and nothing is kept between two inputs.

use qinglet::access::bootstrap::init_owner;
use qinglet::access::pepper::Pepper;
use qinglet::access::rejections::Rejections;
use qinglet::execution::board::Board;
use qinglet::execution::evidence::{Look, ReceiptSeen, Seen};
use qinglet::execution::files::Files;
use qinglet::execution::logs::{LogRead, LogReadError, LogSlice};
use qinglet::http::admit::Admitted;
use qinglet::http::message::{Answer, Bearer, Request};
use qinglet::http::query;
use qinglet::http::route::{self, Method};
use qinglet::http::routes::ROUTES;
use qinglet::http::service::{Api, Parts};
use qinglet::model::config::Config;
use qinglet::model::json;
use qinglet::model::limits::{EDGE, MESSAGE_BYTES_MAX, Profile, RESPONSE_BYTES_MAX};
use qinglet::model::settings::{InForce, Settings};
use qinglet::store::Store;
use qinglet::store::evidence::ActiveAttempt;
use qinglet::store::open::{self, Options};
use qinglet::store::state::StateDir;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

pub fn run(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let Ok(Some((method, target))) = std::str::from_utf8(&data[..at]).map(|line| line.split_once(' ')) else { return };
    let body = data.get(at + 1..).unwrap_or_default();
    let found = match route::find(&ROUTES, method, target) {
        Ok(found) => found,
        Err(word) => return assert!((400..500).contains(&word.status)),
    };
    // Longer ones are refused before they are read.
    if body.len() > found.route.body_bytes_max {
        return;
    }
    let mut request =
        Request { route: found.route, params: found.params, query: found.query, bearer: None, body: body.to_vec() };
    if let Err(refusal) = query::check(&request, &EDGE) {
        return sound(&refusal, &[400]);
    }
    let answer = ask(&request);
    if request.route.method == Method::Get {
        return sound(&answer, &[200, 400, 404, 503]);
    }
    sound(&answer, &[400, 404, 503]);
    match json::parse(&request.body) {
        Err(_) => assert_eq!(answer.status, 400),
        Ok(value) => {
            // The same value in other words gets the same answer.
            request.body = json::canonical(&value).into_bytes();
            assert_eq!(ask(&request), answer);
        }
    }
}

fn sound(answer: &Answer, statuses: &[u16]) {
    let shown = String::from_utf8_lossy(&answer.body);
    assert!(statuses.contains(&answer.status), "{} {shown}", answer.status);
    assert!(answer.body.len() <= RESPONSE_BYTES_MAX);
    let body: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
    if answer.status != 200 {
        assert!(body["code"].as_str().is_some_and(|code| !code.is_empty()), "{shown}");
        assert!(body["message"].as_str().is_none_or(|message| message.len() <= MESSAGE_BYTES_MAX), "{shown}");
    }
}

fn ask(request: &Request) -> Answer {
    static API: OnceLock<(Api, Admitted)> = OnceLock::new();
    let (api, owner) = API.get_or_init(api);
    api.handle(request, Some(owner)).unwrap_or_else(|refusal| refusal)
}

/// An API over a store that is closed, and its owner as admitted while it was open.
fn api() -> (Api, Admitted) {
    let folder = std::env::temp_dir().join(format!("qinglet-fuzz-{}", std::process::id()));
    let options = || Options { limits: &EDGE, clock_ms: || 1_700_000_000_000, vfs: None };
    let state = StateDir::create(&folder).expect("a state folder");
    let lock = state.lock("fuzz").expect("its lock");
    open::init(&state, &lock, &options()).expect("a store");
    let store = Store::start(&state, &lock, options()).expect("an open store");
    init_owner(&state, &store).expect("an owner");
    let token = std::fs::read_to_string(state.owner_token_path()).expect("the owner's token");
    let settings = Settings::resolve(&Config::default(), &Config::default()).expect("the defaults");
    let api = Api::new(Parts {
        capabilities: Arc::default(),
        store: store.clone(),
        pepper: Pepper::load(&state.pepper_path()).expect("a pepper"),
        keyring: state.keyring_path(),
        profile: Profile::Edge,
        limits: &EDGE,
        settings: Arc::new(InForce::new(settings)),
        board: Arc::new(Board::default()),
        logs: Arc::new(Nothing),
        look: Arc::new(Nothing),
        files: Arc::new(Nothing),
        clock_ms: || 1_700_000_000_000,
        rejections: Arc::new(Rejections::new(Arc::new(|| {}))),
        poke: Arc::new(|| {}),
        poke_triggers: Arc::new(|| {}),
        boot: Arc::new(|| None),
        settled: Arc::new(|_| {}),
    });
    let found = route::find(&ROUTES, "GET", "/api/v3/projects/default/access").expect("a route");
    let request = Request {
        route: found.route,
        params: found.params,
        query: found.query,
        bearer: Some(Bearer::new(token.trim_end().to_owned())),
        body: Vec::new(),
    };
    let owner = api.admit(&request).expect("the owner is admitted").expect("to a guarded route");
    store.close();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    (api, owner)
}

struct Nothing;

impl LogRead for Nothing {
    fn read(&self, _: &str, _: u64, _: u32) -> Result<LogSlice, LogReadError> {
        Err(LogReadError::Missing)
    }
}

impl Files for Nothing {}

impl Look for Nothing {
    fn look(&self, _: &ActiveAttempt) -> Seen {
        Seen { receipt: ReceiptSeen::Absent, process: None }
    }
}
