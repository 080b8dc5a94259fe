//! What each path answers.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};

use super::landing;
use crate::api::metrics::{self, Metrics};
use crate::api::snapshot::Snapshots;
use crate::api::status;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Driver;

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers requests from the snapshot.
#[derive(Clone)]
pub(super) struct Pages {
    snapshots: Snapshots,
    metrics: Metrics,
}

impl Pages {
    pub(super) fn new(snapshots: Snapshots, metrics: Metrics) -> Pages {
        Pages { snapshots, metrics }
    }

    pub(super) fn answer(&self, method: &Method, path: &str) -> Response<String> {
        let response = with(self.page(method, path), CACHE_CONTROL, "no-store");
        with(response, X_CONTENT_TYPE_OPTIONS, "nosniff")
    }

    fn page(&self, method: &Method, path: &str) -> Response<String> {
        let known = matches!(path, "/" | "/healthz" | "/readyz" | "/status" | "/metrics");
        if !known {
            return reply(StatusCode::NOT_FOUND, TEXT, "not found\n".to_owned());
        }
        if method != Method::GET && method != Method::HEAD {
            let words = "only GET and HEAD are answered\n".to_owned();
            let refusal = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, words);
            return with(refusal, ALLOW, "GET, HEAD");
        }
        let now = match self.snapshots.clone().now() {
            Ok(now) => now.status(),
            Err(error) => {
                return reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{error}\n"));
            }
        };
        match path {
            "/healthz" => verdict(now.drivers.iter().filter(|driver| is_unserved(driver))),
            "/readyz" => verdict(now.drivers.iter().filter(|driver| is_unready(driver))),
            "/status" => render("application/json", status::json(&now)),
            "/metrics" => render(metrics::CONTENT_TYPE, self.metrics.exposition(&now)),
            _ => {
                let html = landing::page(&now);
                let page = reply(StatusCode::OK, "text/html; charset=utf-8", html);
                let policy = "default-src 'none'; style-src 'unsafe-inline'";
                with(page, CONTENT_SECURITY_POLICY, policy)
            }
        }
    }
}

/// The driver answers and no other process is in the way, but its registration socket is not served.
fn is_unserved(driver: &Driver) -> bool {
    let excused = [Phase::Conflict, Phase::Withdrawn].map(Phase::as_str);
    driver.answering && !driver.socket_stands && !excused.contains(&driver.phase.as_str())
}

/// The driver should be registered and is not. A driver that another process serves, or that has no Node
/// service, will not be registered, and must not delay clients that wait for the node. A conflict between two
/// drivers of ours counts.
fn is_unready(driver: &Driver) -> bool {
    let phase = driver.phase.as_str();
    let excused = phase == Phase::Conflict.as_str() && !driver.name_taken;
    phase != Phase::Registered.as_str() && !excused && !driver.without_node_service
}

fn verdict<'a>(faults: impl Iterator<Item = &'a Driver>) -> Response<String> {
    let why: String = faults
        .map(|driver| format!("{}: {}: {}\n", driver.id, driver.phase, driver.reason))
        .collect();
    if why.is_empty() {
        reply(StatusCode::OK, TEXT, "ok".to_owned())
    } else {
        reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
    }
}

fn render<E: std::fmt::Display>(kind: &'static str, body: Result<String, E>) -> Response<String> {
    match body {
        Ok(body) => reply(StatusCode::OK, kind, body),
        Err(error) => {
            tracing::warn!(%error, "cannot put the status into words");
            let words = format!("{error}\n");
            reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, words)
        }
    }
}

fn reply(code: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    with(response, CONTENT_TYPE, kind)
}

fn with(mut page: Response<String>, name: HeaderName, value: &'static str) -> Response<String> {
    let value = HeaderValue::from_static(value);
    page.headers_mut().insert(name, value);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(phase: Phase) -> Driver {
        Driver {
            id: "a".to_owned(),
            phase: phase.to_string(),
            reason: "so".to_owned(),
            answering: true,
            socket_stands: true,
            ..Driver::default()
        }
    }

    #[test]
    fn ready_is_when_all_that_can_be_registered_are() {
        for phase in Phase::ALL {
            let excused = matches!(phase, Phase::Registered | Phase::Conflict);
            assert_eq!(is_unready(&driver(phase)), !excused, "{phase}");
        }
        assert!(is_unready(&Driver {
            name_taken: true,
            ..driver(Phase::Conflict)
        }));
        let controller = Driver {
            without_node_service: true,
            ..driver(Phase::WaitingForDriver)
        };
        assert!(!is_unready(&controller));
        let told = verdict([driver(Phase::Rejected)].iter());
        assert_eq!(told.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(told.body(), "a: rejected: so\n");
    }

    #[test]
    fn healthy_is_when_all_that_should_be_served_is() {
        for phase in Phase::ALL {
            assert!(!is_unserved(&driver(phase)), "{phase}");
            let unserved = Driver {
                socket_stands: false,
                ..driver(phase)
            };
            let excused = matches!(phase, Phase::Conflict | Phase::Withdrawn);
            assert_eq!(is_unserved(&unserved), !excused, "{phase}");
        }
    }
}
