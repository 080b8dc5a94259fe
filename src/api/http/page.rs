//! What each path answers.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;

use super::landing;
use crate::api::metrics::{self, Metrics};
use crate::api::snapshot::Snapshots;
use crate::api::{status, volumes};
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};
use crate::kubelet::volumes::VolumeReader;

const TEXT: &str = "text/plain; charset=utf-8";
/// Before a driver's id.
const READY_DRIVER: &str = "/readyz/";
/// The health of the daemon and of its drivers does not depend on the volumes, nor on the kubelet's disk.
const SHOW_VOLUMES: [&str; 3] = ["/", "/status", "/metrics"];

/// Answers requests from the snapshot.
#[derive(Clone)]
pub(super) struct Pages {
    snapshots: Snapshots,
    volumes: VolumeReader,
    metrics: Metrics,
}

impl Pages {
    pub(super) fn new(snapshots: Snapshots, volumes: VolumeReader, metrics: Metrics) -> Pages {
        Pages {
            snapshots,
            volumes,
            metrics,
        }
    }

    pub(super) async fn answer(&self, method: &Method, path: &str) -> Response<String> {
        let response = with(self.page(method, path).await, CACHE_CONTROL, "no-store");
        with(response, X_CONTENT_TYPE_OPTIONS, "nosniff")
    }

    async fn page(&self, method: &Method, path: &str) -> Response<String> {
        let known = matches!(path, "/" | "/healthz" | "/readyz" | "/status" | "/metrics");
        let of_driver = path.strip_prefix(READY_DRIVER);
        if !known && of_driver.is_none() {
            return not_found();
        }
        if method != Method::GET && method != Method::HEAD {
            let words = "only GET and HEAD are answered\n".to_owned();
            let refusal = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, words);
            return with(refusal, ALLOW, "GET, HEAD");
        }
        let mut now = match self.snapshots.clone().now() {
            Ok(now) => now.status(),
            Err(error) => {
                return reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{error}\n"));
            }
        };
        if let Some(id) = of_driver {
            return ready_driver(&now, id);
        }
        if SHOW_VOLUMES.contains(&path) {
            volumes::show(&mut now, &*self.volumes.recent().await);
        }
        match path {
            "/healthz" => {
                let unserved = now.drivers.iter().filter(|driver| is_unserved(driver));
                verdict(&unserved.map(status::explain).collect::<Vec<_>>())
            }
            "/readyz" => verdict(&status::unready_drivers(&now)),
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

/// Whether one driver is ready. The id is as it is in the URL.
fn ready_driver(now: &Status, id: &str) -> Response<String> {
    let id = percent_decode_str(id).decode_utf8_lossy();
    match now.drivers.iter().find(|driver| driver.id == id) {
        None => not_found(),
        Some(driver) if status::is_unready(driver) => verdict(&[status::explain(driver)]),
        Some(_) => verdict(&[]),
    }
}

fn not_found() -> Response<String> {
    reply(StatusCode::NOT_FOUND, TEXT, "not found\n".to_owned())
}

fn verdict(faults: &[String]) -> Response<String> {
    if faults.is_empty() {
        reply(StatusCode::OK, TEXT, "ok".to_owned())
    } else {
        let why = faults.iter().map(|fault| format!("{fault}\n")).collect();
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
    fn the_readiness_of_a_driver_has_a_page_of_its_own() {
        let (well, silent) = (driver(Phase::Registered), driver(Phase::Registered));
        let silent = Driver {
            id: "b/c d".to_owned(),
            answering: false,
            ..silent
        };
        let now = Status {
            drivers: vec![well, silent],
            ..Status::default()
        };
        let code = |id: &str| ready_driver(&now, id).status().as_u16();
        assert_eq!(code("a"), 200);
        assert_eq!(code("b%2Fc%20d"), 503);
        assert_eq!(code("c"), 404);
        assert_eq!(code(""), 404);
        assert_eq!(code("%"), 404);
        assert_eq!(
            ready_driver(&now, "b/c d").body(),
            "b/c d: registered: so\n"
        );
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
